package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// ErrChunked says that a body breaks the chunked transfer coding.
var ErrChunked = errors.New("malformed chunked encoding")

// maxChunkLine bounds a chunk's size line with its extensions, and all trailer
// lines together; net/http has the same bound.
const maxChunkLine = 4096

// maxChunkExcess bounds what chunk lines may take beyond 16 bytes and twice the
// data of each chunk, as net/http does.
const maxChunkExcess = 16 << 10

// chunkedDecoder undoes the chunked transfer coding of data that is handed to it
// piece by piece. It accepts what net/http accepts. Its zero value is ready.
type chunkedDecoder struct {
	state  chunkState
	left   uint64 // of the chunk's data
	line   []byte // the incomplete line of earlier pieces
	total  int    // bytes of trailer
	excess int64
	err    error
}

type chunkState int

const (
	chunkSize chunkState = iota
	chunkData
	chunkCR // after the data
	chunkLF
	chunkTrailer
	chunkEnd
)

func (d *chunkedDecoder) reset() { *d = chunkedDecoder{line: d.line[:0]} }

// decode moves the data in b to its front and returns it with the rest of b that follows the end of the body, which
// ended tells. What data precedes an error is returned with it.
func (d *chunkedDecoder) decode(b []byte) (data, rest []byte, ended bool, err error) {
	n, at := 0, 0
	for at < len(b) && d.state != chunkEnd && d.err == nil {
		switch d.state {
		case chunkData:
			m := int(min(d.left, uint64(len(b)-at)))
			if n != at {
				copy(b[n:], b[at:at+m])
			}
			n, at, d.left = n+m, at+m, d.left-uint64(m)
			if d.left == 0 {
				d.state = chunkCR
			}
		case chunkCR, chunkLF:
			want := byte('\r')
			if d.state == chunkLF {
				want = '\n'
			}
			if b[at] != want {
				d.err = ErrChunked
				break
			}
			at++
			if d.state++; d.state > chunkLF {
				d.state = chunkSize
			}
		default:
			end := bytes.IndexByte(b[at:], '\n')
			m := end + 1
			if end < 0 {
				m = len(b) - at
			}
			if len(d.line)+m > maxChunkLine {
				d.err = fmt.Errorf("%w: line too long", ErrChunked)
				break
			}
			line := b[at : at+m]
			if end < 0 || len(d.line) > 0 {
				d.line = append(d.line, line...)
				line = d.line
			}
			at += m
			if end >= 0 {
				d.err = d.take(line)
				d.line = d.line[:0]
			}
		}
	}
	return b[:n], b[at:], d.state == chunkEnd, d.err
}

// take reads a whole line, of a chunk's size or of the trailer.
func (d *chunkedDecoder) take(line []byte) error {
	if d.state == chunkTrailer {
		if d.total += len(line); d.total > maxChunkLine {
			return fmt.Errorf("%w: trailer too long", ErrChunked)
		}
		switch text := bytes.TrimRight(line, "\r\n"); {
		case len(text) == 0:
			d.state = chunkEnd
		case bytes.IndexByte(text, ':') <= 0:
			return fmt.Errorf("%w: trailer line without a name", ErrChunked)
		}
		return nil
	}
	// The first CR must be the one before the LF.
	if cr := bytes.IndexByte(line, '\r'); cr < 0 || cr != len(line)-2 {
		return fmt.Errorf("%w: chunk size not ended by CRLF", ErrChunked)
	}
	size, _, _ := bytes.Cut(bytes.TrimRight(line[:len(line)-2], " \t"), []byte(";"))
	n, err := strconv.ParseUint(string(size), 16, 64)
	if err != nil || len(size) > 16 {
		return fmt.Errorf("%w: chunk size %q", ErrChunked, size[:min(len(size), 60)])
	}
	d.excess = max(0, d.excess+int64(len(line))-16-2*int64(min(n, 1<<40)))
	if d.excess > maxChunkExcess {
		return fmt.Errorf("%w: too much beside the data", ErrChunked)
	}
	if d.left, d.state = n, chunkData; n == 0 {
		d.state = chunkTrailer
	}
	return nil
}
