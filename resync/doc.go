// Package resync is the pull half: it lists a table again, compares what the list says with what the cache holds, repairs
// what differs through the cache's own gate, and reports. It also fetches single keys that the cache could not decide.
//
// It relies on a Lister (the source's list service) and on a Cache. It has no way of its own into the cache: a listed row
// goes through the same gate as a pushed delta, and which of the two is newer is decided there.
//
// A run asks for pages one ahead, lets the cache judge a page once the stream has passed the page's H (so that whatever the
// list still knows better is a loss and not lag), proves by the totals of each page that the list is whole, and only then
// looks for keys that the cache holds and the list did not return. Those are asked for singly, and the answer is judged by
// its own snapshot: a page never proves absence by itself. It holds one page in hand and one on its way; of the pages that were
// judged it keeps eight bytes a key.
//
// When a step fails: a page that is missing, doubled, out of order, cut off, or of another shape, server or epoch than the
// first fails the run, and so does an error of the source or the cache. What was repaired until then stays (each repair
// was right by itself); nothing is deleted, no floor is set, nothing is claimed, and the Runner tries again later. Where the
// stream stands still, a page is judged as it is after a bounded wait; the report says so and nothing is claimed either.
//
// It won't delete more than a share of a table (MaxPrune) without being told to, and it starts no goroutine that it does
// not wait for.
package resync
