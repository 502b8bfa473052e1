package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/syncd-io/syncd"
)

// The form of a file, all numbers little-endian:
//
//	magic             8 bytes
//	format            uint16
//	name              uint16 length, bytes: the sync's
//	checksum          uint32
//	frames            uint32 length (1 to frameSize), uint32 checksum, as many bytes
//	end               uint32 0, uint64 length of all frames' bytes, uint32 checksum
//
// A checksum is CRC-32C of everything before it, less the checksums of frames: so frames that were swapped, doubled or left
// out are found as well as bits that turned.
const (
	magic     = "syncd\x00ck"
	format    = 1
	frameSize = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Fault says what is wrong with a file.
type Fault string

// The faults of files.
const (
	Corrupt    Fault = "corrupt"    // checksums or lengths don't agree
	Truncated  Fault = "cut short"  // it ends before its end
	Foreign    Fault = "foreign"    // it is no checkpoint, or that of another sync
	Newer      Fault = "newer"      // it was written by a newer program
	Unreadable Fault = "unreadable" // the system does not let it be read
	Useless    Fault = "of no use"  // it is whole, and who reads it can make nothing of what is in it
)

// faultError is an error of a file itself.
type faultError struct {
	fault Fault
	err   error
}

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

func faultf(f Fault, text string, args ...any) error {
	return &faultError{f, fmt.Errorf(text, args...)}
}

// frameWriter writes a file's form to w.
type frameWriter struct {
	w     io.Writer
	buf   []byte // the frame being filled, behind room for its length and checksum
	sum   uint32
	total uint64 // bytes in frames
	n     int64  // bytes written
}

const frameHead = 8

// newFrameWriter writes the header.
func newFrameWriter(w io.Writer, name string) (*frameWriter, error) {
	if len(name) > 1<<16-1 {
		return nil, fmt.Errorf("the sync's name has %d bytes", len(name))
	}
	f := &frameWriter{w: w, buf: make([]byte, frameHead, frameHead+frameSize)}
	b := binary.LittleEndian.AppendUint16([]byte(magic), format)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	f.sum = crc32.Checksum(b, castagnoli)
	return f, f.write(binary.LittleEndian.AppendUint32(b, f.sum))
}

func (f *frameWriter) write(b []byte) error {
	n, err := f.w.Write(b)
	f.n += int64(n)
	return err
}

// Write puts p into frames.
func (f *frameWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		room := cap(f.buf) - len(f.buf)
		part := p[done:min(len(p), done+room)]
		f.buf = append(f.buf, part...)
		done += len(part)
		if len(f.buf) == cap(f.buf) {
			if err := f.flush(); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (f *frameWriter) flush() error {
	if len(f.buf) == frameHead {
		return nil
	}
	data := f.buf[frameHead:]
	binary.LittleEndian.PutUint32(f.buf, uint32(len(data)))
	f.sum = crc32.Update(f.sum, castagnoli, f.buf[:4])
	f.sum = crc32.Update(f.sum, castagnoli, data)
	binary.LittleEndian.PutUint32(f.buf[4:], f.sum)
	err := f.write(f.buf)
	f.total += uint64(len(data))
	f.buf = f.buf[:frameHead]
	return err
}

// end writes the last frame and the end.
func (f *frameWriter) end() error {
	if err := f.flush(); err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 4), f.total)
	f.sum = crc32.Update(f.sum, castagnoli, b)
	return f.write(binary.LittleEndian.AppendUint32(b, f.sum))
}

// frameReader gives the bytes of a file's frames. Its errors are faultErrors. It gives io.EOF only when the file was whole.
type frameReader struct {
	r     io.Reader
	buf   []byte // what of the frame was not given out
	frame [frameSize]byte
	head  [frameHead + 8]byte // of the frame, or all of the end
	sum   uint32
	total uint64
	err   error
}

// newFrameReader reads the header and checks that the file is of the sync of a name.
func newFrameReader(r io.Reader, name string) (*frameReader, error) {
	f := &frameReader{r: r}
	head := make([]byte, len(magic)+4)
	if err := f.full(head); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, faultf(Foreign, "it is not a checkpoint of syncd")
	}
	if got := binary.LittleEndian.Uint16(head[len(magic):]); got != format {
		return nil, faultf(Newer, "format %d, this program reads %d: %w", got, format, syncd.ErrFormat)
	}
	rest := make([]byte, int(binary.LittleEndian.Uint16(head[len(magic)+2:]))+4)
	if err := f.full(rest); err != nil {
		return nil, err
	}
	owner := rest[:len(rest)-4]
	f.sum = crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, owner)
	if err := f.check(rest[len(owner):], "the header"); err != nil {
		return nil, err
	}
	if string(owner) != name {
		return nil, faultf(Foreign, "it is the checkpoint of sync %q, not of %q", owner, name)
	}
	return f, nil
}

func (f *frameReader) Read(p []byte) (int, error) {
	for len(f.buf) == 0 && f.err == nil {
		f.err = f.next()
	}
	if len(f.buf) == 0 {
		return 0, f.err
	}
	n := copy(p, f.buf)
	f.buf = f.buf[n:]
	return n, nil
}

// next reads a frame, or the end.
func (f *frameReader) next() error {
	head := f.head[:frameHead]
	if err := f.full(head); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head)
	if n == 0 {
		return f.end()
	}
	if n > frameSize {
		return faultf(Corrupt, "a frame of %d bytes behind %d bytes of frames", n, f.total)
	}
	data := f.frame[:n]
	if err := f.full(data); err != nil {
		return err
	}
	f.sum = crc32.Update(crc32.Update(f.sum, castagnoli, head[:4]), castagnoli, data)
	if err := f.check(head[4:], "the frame"); err != nil {
		return err
	}
	f.total += uint64(n)
	f.buf = data
	return nil
}

// end reads the rest of the end, of which head holds the first half, and checks that nothing follows.
func (f *frameReader) end() error {
	all := f.head[:]
	if err := f.full(all[frameHead:]); err != nil {
		return err
	}
	f.sum = crc32.Update(f.sum, castagnoli, all[:12])
	if err := f.check(all[12:], "the end"); err != nil {
		return err
	}
	if total := binary.LittleEndian.Uint64(all[4:]); total != f.total {
		return faultf(Corrupt, "%d bytes in frames, its end says %d", f.total, total)
	}
	switch n, err := io.ReadFull(f.r, make([]byte, 1)); {
	case n > 0:
		return faultf(Corrupt, "it goes on behind its end")
	case err != io.EOF:
		return &faultError{Unreadable, err}
	}
	return io.EOF
}

func (f *frameReader) check(sum []byte, what string) error {
	if got := binary.LittleEndian.Uint32(sum); got != f.sum {
		return faultf(Corrupt, "%s behind %d bytes of frames: checksum %08x, it should be %08x", what, f.total, got, f.sum)
	}
	return nil
}

func (f *frameReader) full(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return faultf(Truncated, "it ends behind %d bytes of frames, before its end", f.total)
	}
	return &faultError{Unreadable, err}
}
