package checkpoint

import (
	"context"
	"io"
	"path/filepath"
	"testing"
)

// benchmarkSize is about what a million rows of 200 bytes take.
const benchmarkSize = 220 << 20

func BenchmarkSave(b *testing.B) {
	f := &File{Path: filepath.Join(b.TempDir(), "bench"), Name: "bench"}
	data := noise(1 << 20)
	b.SetBytes(benchmarkSize)
	for b.Loop() {
		saveMuch(b, f, data)
	}
}

func BenchmarkLoad(b *testing.B) {
	f := &File{Path: filepath.Join(b.TempDir(), "bench"), Name: "bench"}
	saveMuch(b, f, noise(1<<20))
	b.SetBytes(benchmarkSize)
	for b.Loop() {
		err := f.Load(func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func saveMuch(b *testing.B, f *File, data []byte) {
	_, err := f.Save(context.Background(), func(w io.Writer) error {
		for n := 0; n < benchmarkSize; n += len(data) {
			if _, err := w.Write(data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
