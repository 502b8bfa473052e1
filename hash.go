package syncd

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// DigestForm numbers the way RowDigest and Key.Hash are made. Two sides compare digests only under one number.
const DigestForm = 1

// Hash places the key among the hash buckets of digests and orders the scans of caches: XXH64 of the key's bytes, seed 0.
// It is the same on every machine.
func (k Key) Hash() uint64 {
	return KeyHash(unsafe.Slice(unsafe.StringData(string(k)), len(k)))
}

// KeyHash is Key.Hash of a key's bytes.
func KeyHash(key []byte) uint64 { return xxh64(key, 0) }

// RowDigest is the digest of one row of a list or a cache: XXH64 of the row's JSON, seeded with its key's hash. Sums of
// it (mod 2^64) tell whether two sets of rows are equal.
func RowDigest(k Key, row []byte) uint64 { return RowDigestOf(k.Hash(), row) }

// RowDigestOf is RowDigest where the key's hash is known.
func RowDigestOf(hash uint64, row []byte) uint64 { return xxh64(row, hash) }

const (
	prime1 uint64 = 0x9E3779B185EBCA87
	prime2 uint64 = 0xC2B2AE3D27D4EB4F
	prime3 uint64 = 0x165667B19E3779F9
	prime4 uint64 = 0x85EBCA77C2B2AE63
	prime5 uint64 = 0x27D4EB2F165667C5
)

// xxh64 is XXH64 as its specification (doc/xxhash_spec.md of Cyan4973/xxHash) gives it. It stands here because this
// package takes nothing but the standard library, which has no unseeded 64-bit hash of this speed.
func xxh64(b []byte, seed uint64) uint64 {
	n := uint64(len(b))
	var h uint64
	if len(b) >= 32 {
		v1, v2, v3, v4 := seed+prime1+prime2, seed+prime2, seed, seed-prime1
		for len(b) >= 32 {
			v1 = round(v1, binary.LittleEndian.Uint64(b))
			v2 = round(v2, binary.LittleEndian.Uint64(b[8:]))
			v3 = round(v3, binary.LittleEndian.Uint64(b[16:]))
			v4 = round(v4, binary.LittleEndian.Uint64(b[24:]))
			b = b[32:]
		}
		h = bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
		for _, v := range [4]uint64{v1, v2, v3, v4} {
			h = (h^round(0, v))*prime1 + prime4
		}
	} else {
		h = seed + prime5
	}
	h += n
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(b)), 27)*prime1 + prime4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*prime1, 23)*prime2 + prime3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

func round(acc, in uint64) uint64 {
	return bits.RotateLeft64(acc+in*prime2, 31) * prime1
}
