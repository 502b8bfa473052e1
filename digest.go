package syncd

// MaxDigestBits bounds the number of buckets of a digest, which is a power of two.
const MaxDigestBits = 14

// BucketOf gives the bucket, of 2^bits, that a key of this hash lies in. The top bits of the hash choose it, so the keys of
// a bucket stand together where keys are in the order of their hash.
func BucketOf(hash uint64, bits int) int { return int(hash >> (64 - bits)) }

// DigestRequest asks for the digest of a table in 2^Bits buckets, Bits being 0 to MaxDigestBits.
type DigestRequest struct {
	Table Table
	Bits  int
	// Selector leaves out the rows that it does not match; empty: none.
	Selector string
	// Since is as in ListRequest.
	Since *Snapshot
}

// Digest tells how many rows each hash bucket of a table has, and the sum of their digests: two that are equal prove the
// rows equal without moving them.
//
// Its rows were read in pages, as those of a list are, each in a snapshot of its own: they are not of one moment.
type Digest struct {
	Table Table
	// Selector is that of the request: only rows that it matches are counted.
	Selector string
	Schema   uint64 // hash of the shape
	System   uint64 // system identifier of the server it was read from
	Timeline uint32
	Form     int // the DigestForm that the sums were made by
	// Snapshot is the oldest of the pages' snapshots: each page shows what it shows, and perhaps more. Its H is the greatest
	// of all pages': no page shows a commit that ends above it.
	Snapshot *Snapshot
	// Safe is the least of the pages'.
	Safe LSN
	Bits int
	// Buckets has 2^Bits elements.
	Buckets []Totals
	// Bytes is the size of the digest on the bus.
	Bytes int
}

// Rows counts the rows of all buckets.
func (d *Digest) Rows() uint64 { return Sum(d.Buckets).Rows }

// Sum adds totals up.
func Sum(all []Totals) (t Totals) {
	for _, b := range all {
		t.Rows += b.Rows
		t.Digest += b.Digest
	}
	return t
}

// Fold gives the totals of 2^bits buckets out of those of as many or more, a power of two.
func Fold(fine []Totals, bits int) []Totals {
	all := make([]Totals, 1<<bits)
	n := len(fine) / len(all)
	for i := range all {
		all[i] = Sum(fine[i*n : (i+1)*n])
	}
	return all
}

// BucketRange names the buckets First to Last.
type BucketRange struct{ First, Last int }

// BucketSet is a set of hash buckets, of 2^Bits: those of its Ranges, which ascend and don't touch. nil is the set of all.
// It is not changed once it was made.
type BucketSet struct {
	Bits   int
	Ranges []BucketRange
}

// NewBucketSet makes the set of some buckets, which ascend.
func NewBucketSet(bits int, buckets []int) *BucketSet {
	s := &BucketSet{Bits: bits}
	for _, b := range buckets {
		if n := len(s.Ranges); n > 0 && s.Ranges[n-1].Last+1 >= b {
			s.Ranges[n-1].Last = b
			continue
		}
		s.Ranges = append(s.Ranges, BucketRange{b, b})
	}
	return s
}

// Valid says whether the ranges ascend, don't touch, and name buckets that there are.
func (s *BucketSet) Valid() bool {
	if s.Bits < 0 || s.Bits > MaxDigestBits {
		return false
	}
	next := 0
	for _, r := range s.Ranges {
		if r.First < next || r.Last < r.First || r.Last >= 1<<s.Bits {
			return false
		}
		next = r.Last + 2
	}
	return true
}

// Len counts the buckets.
func (s *BucketSet) Len() (n int) {
	for _, r := range s.Ranges {
		n += r.Last - r.First + 1
	}
	return n
}

// Holds says whether a key of this hash lies in one of the buckets.
func (s *BucketSet) Holds(hash uint64) bool {
	if s == nil {
		return true
	}
	b := BucketOf(hash, s.Bits)
	lo, hi := 0, len(s.Ranges)
	for lo < hi {
		if mid := (lo + hi) / 2; s.Ranges[mid].Last < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.Ranges) && s.Ranges[lo].First <= b
}

// Hashes gives the hashes of a range of the set: from the first to the last.
func (s *BucketSet) Hashes(r BucketRange) (first, last uint64) {
	shift := 64 - s.Bits
	return uint64(r.First) << shift, uint64(r.Last)<<shift | (1<<shift - 1)
}
