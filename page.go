package syncd

// Row is one row of a list: its key and its JSON as row_to_json prints it.
type Row struct {
	Key  Key
	JSON []byte
}

// Totals proves a list complete: the number of rows sent and the sum (mod 2^64) of their digests.
type Totals struct {
	Rows   uint64
	Digest uint64
}

// Add counts a row in.
func (t *Totals) Add(k Key, row []byte) {
	t.Rows++
	t.Digest += RowDigest(k, row)
}

// ListRequest asks for one page of a table in the order of its key.
type ListRequest struct {
	Table Table
	// Started says that After is set: the key that the page before ended with.
	Started bool
	After   Key
	Limit   int // rows at most; 0 leaves it to the source
	// Selector leaves out the rows that it does not match, as Buckets does; empty: no row.
	Selector string
	// Buckets leaves out the rows whose keys lie in other hash buckets; nil: no row. Pages then have fewer rows than there
	// would be room for, and may have none.
	Buckets *BucketSet
	// Sent carries the totals of the pages before, so that any process of the source can answer the next.
	Sent Totals
	// Since asks for a page that was read anew rather than for one kept from a moment ago whose snapshot is not provably
	// later than Since, which would be too old to tell who asks anything; nil: either will do. What is read anew is given
	// whatever its snapshot.
	Since *Snapshot
}

// GetRequest asks for single keys of a table.
type GetRequest struct {
	Table Table
	Keys  []Key
	// Selector makes the rows that it does not match absent; empty: none.
	Selector string
}

// Page is a part of a table as one snapshot shows it: a page of a list, or the answer to a get. Keys that a get asked for
// and Rows lacks are absent in the snapshot.
type Page struct {
	Table Table
	// Selector is that of the request: rows that it does not match count as absent.
	Selector string
	Schema   uint64 // hash of the shape
	System   uint64 // system identifier of the server it was read from
	Timeline uint32
	Snapshot *Snapshot
	// Safe is the safe of the last marker that the server had published before the snapshot; on a standby, R.
	Safe LSN
	Rows []Row
	// Asked is what a get asked for; nil on a page of a list.
	Asked []Key
	// Last marks a list's last page; Sent are the totals of everything sent up to and with this page.
	Last bool
	Sent Totals
	// After is the key to continue behind; meaningless on the last page.
	After Key
	// Bytes is the size of the page on the bus.
	Bytes int
}
