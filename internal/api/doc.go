// Package api answers reads of one sidecar's cache over HTTP, and takes requests to resync it. The paths, parameters,
// headers and statuses are those of the HTTP part of the user's documentation.
//
// It relies on a Cache whose views are each of one commit and whose rows never change, so an answer is never torn and a
// row is sent as the very bytes that the cache holds. A read with min_version waits for the cache's commits and asks
// the source, once for all that wait, to publish a marker now; where the source is away the markers of an idle source,
// one a second, are what ends the wait.
//
// What is wrong with a request is a 400 that names the parameter; a table that is not known is a 404 that names those
// that are; what passes by itself (not listed yet, behind) is a 503 or 504, with Retry-After. When the server stops,
// waiting reads are told 503 and running answers are finished within Grace.
//
// An answer never claims more than it holds: while a key's row is unknown (a change whose row has to be fetched, or a
// key that could not be decided) the key, and any page of its table, claims only what lies before that change.
//
// A watch follows the History at its own pace and holds a place in it and no more; between two events it has no buffer. What
// it sends is whole commits, each ended by a bookmark whose id names the place behind it, so a client that is cut off goes on
// with nothing missing and nothing torn.
//
// It keeps no copy of rows and no per-client state. Rows are sent in gzip or zstd where the client takes them and they are
// worth it.
package api
