// Package arch holds the tests of how syncd's packages hang together: who may import whom, who may write to a cache, and
// where transaction ids of 32 bits may appear. It has no code of its own.
package arch
