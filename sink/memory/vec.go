package memory

import "slices"

// chunkLen is how many elements of a vec one change copies.
const chunkLen = 32

// vec is a vector whose copies share what they have in common. A copy that was published is never changed: set and push
// copy first what the commit under way has not made itself.
type vec[T any] struct {
	chunks []*[chunkLen]T
	n      int
}

// owner says which parts of a vec were made by the commit under way, and so are seen by nobody yet.
type owner struct {
	commit uint64   // the commit under way
	spine  uint64   // the commit that made the slice of chunks
	made   []uint64 // the commits that made the chunks
}

func (v *vec[T]) at(i int) T { return v.chunks[i/chunkLen][i%chunkLen] }

func (v *vec[T]) set(o *owner, i int, x T) {
	c := i / chunkLen
	if o.made[c] != o.commit {
		if o.spine != o.commit {
			v.chunks = slices.Clone(v.chunks)
			o.spine = o.commit
		}
		fresh := *v.chunks[c]
		v.chunks[c] = &fresh
		o.made[c] = o.commit
	}
	v.chunks[c][i%chunkLen] = x
}

func (v *vec[T]) push(o *owner, x T) {
	if v.n == len(v.chunks)*chunkLen {
		// What was published ends before the new element, so it may share its array.
		v.chunks = append(v.chunks, new([chunkLen]T))
		o.made = append(o.made, o.commit)
	}
	v.n++
	v.set(o, v.n-1, x)
}

// size is how many bytes the vector takes, with the writer's notes, if an element takes so many.
func (v *vec[T]) size(element int) int {
	const pointer, made = 8, 8
	return len(v.chunks) * (chunkLen*element + pointer + made)
}
