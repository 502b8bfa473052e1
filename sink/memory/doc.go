// Package memory keeps the entries of a cache in the process's memory: sink.Store for caches of millions of rows.
//
// Rows and keys lie one behind the other in blocks of bytes without pointers, so the garbage collector has a few
// thousand things to look at, not millions. A block is only ever appended to, and what was written stays as it is until
// nobody holds the block any more: what a reader was given it may keep. (A row that is kept keeps its block, up to 1 MiB.)
//
// The index is a tree of two levels by the hash of the key. The directory has 2^depth places; the top bits of the hash
// choose one. A leaf holds up to 64 slots of 8 bytes, in the order of the hash: its top 28 bits, and where the entry lies.
// A leaf that is full splits into two; the directory doubles when a leaf needs it. So a scan in the order of the index is a
// scan in the order of the hash, and growing never stops the writer for longer than it takes to copy a directory of
// 16 bytes for each 45 entries.
//
// Nothing that was published is changed. A commit copies the leaves it touches and the parts of the vectors that lead to
// them, and ends with the swap of one pointer. So a View is that pointer: it shows one commit of all tables for as long as
// it is held, never waits for a commit, however large, and holds none up; and a snapshot file is written from a View while
// reads and commits go on. What it costs: a commit of one entry copies about 8 KiB in a table of a million. An
// open-addressing table changed in place would copy nothing, but its readers would have to wait for a commit, or follow
// chains of older entries.
//
// An entry that is replaced leaves a gap in its block. When the gaps of a table come to more than a fifth of its blocks,
// each commit moves some entries of the sparsest block to the end, at a cost in proportion to what it wrote itself, and a
// block with nothing left in it is dropped.
//
// The store decides nothing about which state is newer; package sink does.
package memory
