// Package sidecar assembles the stages that keep one cache: the feed that follows the stream, the cache behind the gate,
// the runner and the fetcher that list and get, the checker that samples, the catalog that follows the source's tables, the
// saver that keeps the cache on disk. It is given the stream and the list service, and opens no connection and no port of
// its own.
//
// A cache that was kept on disk is read at once, also where stream and source are away; each stage waits for what it needs
// and tries again, so nothing but a message of a newer program ends a sidecar that was started.
package sidecar
