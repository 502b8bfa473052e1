// Package deploy is what the files beside it are tested by: nothing is imported from here. It is a module of its own, so that
// the libraries of these tests are not asked of those who build syncd.
package deploy
