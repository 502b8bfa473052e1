package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/syncd-io/syncd"
)

// framed gives data in a file's form, written in pieces of the given size.
func framed(t testing.TB, name string, data []byte, piece int) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := writeFrames(&b, name, func(w io.Writer) error {
		for len(data) > 0 {
			n, err := w.Write(data[:min(piece, len(data))])
			if err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	})
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d of %d bytes: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func unframed(r io.Reader, name string) ([]byte, error) {
	f, err := newFrameReader(r, name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestFrames(t *testing.T) {
	for _, size := range []int{0, 1, frameSize - 1, frameSize, frameSize + 1, 3*frameSize + 7} {
		for _, piece := range []int{1 << 30, frameSize, 1000, 7} {
			data := noise(size)
			file := framed(t, "shop", data, piece)
			for how, r := range map[string]io.Reader{"at once": bytes.NewReader(file), "in halves": iotest.HalfReader(bytes.NewReader(file)),
				"data with its end": iotest.DataErrReader(bytes.NewReader(file))} {
				if got, err := unframed(r, "shop"); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes in pieces of %d, read %s: %d bytes, %v", size, piece, how, len(got), err)
				}
			}
		}
	}
}

// TestEveryDamageIsFound cuts a file at every byte, turns every bit and adds to its end.
func TestEveryDamageIsFound(t *testing.T) {
	file := framed(t, "shop", noise(300), 300)
	is := func(bad []byte, faults string, what string, at int) {
		t.Helper()
		_, err := unframed(bytes.NewReader(bad), "shop")
		var fault *faultError
		if !errors.As(err, &fault) || !strings.Contains(faults, string(fault.fault)) {
			t.Fatalf("%s %d: got %v, want one that is %s", what, at, err, faults)
		}
	}
	for i := range file {
		is(file[:i], string(Truncated), "cut at", i)
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[i] ^= 1 << bit
			is(bad, "corrupt, cut short, foreign, newer", "turned a bit of byte", i)
		}
	}
	is(append(bytes.Clone(file), 0), string(Corrupt), "added to", len(file))
	is(append(bytes.Clone(file), file...), string(Corrupt), "doubled", len(file))
}

// TestFramesInOrder swaps, doubles and leaves out frames, each good in itself.
func TestFramesInOrder(t *testing.T) {
	const size = frameHead + frameSize
	file := framed(t, "shop", noise(3*frameSize), frameSize)
	head := len(file) - 3*size - 16
	frame := func(i int) []byte { return file[head+i*size : head+(i+1)*size] }
	tail := file[head+3*size:]
	for name, order := range map[string][]int{"swapped": {1, 0, 2}, "doubled": {0, 0, 1, 2}, "left out": {0, 2}, "the last left out": {0, 1}} {
		bad := bytes.Clone(file[:head])
		for _, i := range order {
			bad = append(bad, frame(i)...)
		}
		_, err := unframed(bytes.NewReader(append(bad, tail...)), "shop")
		var fault *faultError
		if !errors.As(err, &fault) || fault.fault != Corrupt {
			t.Errorf("frames %s: %v", name, err)
		}
	}
}

func TestFrameFaults(t *testing.T) {
	good := framed(t, "shop", noise(10), 10)
	newer := bytes.Clone(good)
	newer[len(magic)]++
	huge := append(bytes.Clone(good[:len(magic)+4+4+4]), 0xff, 0xff, 0xff, 0xff)
	total := bytes.Clone(good) // an end with a good checksum and a wrong length
	binary.LittleEndian.PutUint64(total[len(total)-12:], 11)
	frame := total[len(magic)+4+4+4 : len(total)-16]
	sum := crc32.Update(crc32.Checksum(total[:len(magic)+4+4], castagnoli), castagnoli, frame[:4])
	sum = crc32.Update(crc32.Update(sum, castagnoli, frame[frameHead:]), castagnoli, total[len(total)-16:len(total)-4])
	binary.LittleEndian.PutUint32(total[len(total)-4:], sum)
	disk := errors.New("input/output error")
	for _, c := range []struct {
		name  string
		file  io.Reader
		fault Fault
		text  string
		is    error
	}{
		{"another sync's", bytes.NewReader(framed(t, "other", nil, 1)), Foreign, `of sync "other", not of "shop"`, nil},
		{"another program's", strings.NewReader("SQLite format 3\x00"), Foreign, "not a checkpoint", nil},
		{"a newer program's", bytes.NewReader(newer), Newer, "format 2", syncd.ErrFormat},
		{"a frame too large", bytes.NewReader(append(huge, make([]byte, 8)...)), Corrupt, "a frame of 4294967295 bytes", nil},
		{"a wrong total", bytes.NewReader(total), Corrupt, "its end says 11", nil},
		{"a bad disk", io.MultiReader(bytes.NewReader(good[:20]), iotest.ErrReader(disk)), Unreadable, "input/output", disk},
		{"a bad disk at the end", io.MultiReader(bytes.NewReader(good), iotest.ErrReader(disk)), Unreadable, "input/output", disk},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := unframed(c.file, "shop")
			var fault *faultError
			if !errors.As(err, &fault) || fault.fault != c.fault || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %s, %q", err, c.fault, c.text)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v does not wrap %v", err, c.is)
			}
		})
	}
	if _, err := newFrameWriter(io.Discard, strings.Repeat("x", 1<<16)); err == nil {
		t.Error("a name of 64 KiB is written")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(framed(f, "shop", nil, 1))
	f.Add(framed(f, "shop", noise(100), 60))
	f.Fuzz(func(t *testing.T, file []byte) {
		data, err := unframed(bytes.NewReader(file), "shop")
		if err != nil {
			var fault *faultError
			if !errors.As(err, &fault) {
				t.Fatalf("%v is no fault", err)
			}
			return
		}
		again, err := unframed(bytes.NewReader(framed(t, "shop", data, len(data)+1)), "shop")
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("written again: %v", err)
		}
	})
}
