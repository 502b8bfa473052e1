package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// event is one event of a text/event-stream.
type event struct {
	id    string // with hasID: where to go on; empty: nowhere
	hasID bool
	name  string
	data  []byte
}

// maxEvent is the longest event that is read.
const maxEvent = 1 << 30

// eventReader reads the events of a text/event-stream.
type eventReader struct{ r *bufio.Reader }

// next gives the next event that has data. An event that the stream breaks off in is none: the error is then that of the end.
func (e *eventReader) next() (event, error) {
	var ev event
	size := 0
	for {
		line, err := e.line(maxEvent - size)
		if err != nil {
			return event{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if ev.data != nil {
				return ev, nil
			}
			ev, size = event{}, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			ev.id, ev.hasID = string(value), true
		case "event":
			ev.name = string(value)
		case "data":
			if ev.data != nil {
				ev.data = append(ev.data, '\n')
			} else {
				ev.data = []byte{}
			}
			ev.data = append(ev.data, value...)
		}
	}
}

// line gives the next line without its end, a newline with or without a carriage return before it.
func (e *eventReader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		if line == nil && err == nil {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > limit:
			return nil, fmt.Errorf("an event is longer than %d bytes", maxEvent)
		}
	}
}
