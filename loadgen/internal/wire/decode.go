// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// ErrTooLong is returned for an event above the parser's bound.
var ErrTooLong = errors.New("loadgen: event exceeds the size limit")

// Parser reads a stream of server-sent events as the WHATWG HTML standard specifies: lines end in LF, CR or CRLF
// wherever the reads split them; comments, unknown fields and a leading byte-order mark are skipped; several data lines
// join with LF; an event that no blank line ends is dropped. Feed it the bytes read, then take the events with Next.
type Parser struct {
	max   int
	rest  []byte // fed and not consumed
	carry []byte // the incomplete line of earlier feeds
	// data is the pending event's data. It points into rest while one whole line
	// there is all of it, and into own otherwise.
	data, own []byte
	hasData   bool
	name      []byte // of the pending event
	skipLF    bool   // the last line ended in a CR at the end of a feed
	begun     bool   // the byte-order mark is dealt with
	err       error
}

// Reset prepares the parser for a new stream, and keeps its buffers.
func (p *Parser) Reset(limit int) {
	*p = Parser{max: limit, carry: p.carry[:0], own: p.own[:0], name: p.name[:0]}
}

// Feed hands over the bytes read. The parser uses b until Next returns false.
func (p *Parser) Feed(b []byte) { p.rest = b }

// Next returns the next event's name and data. They are valid until the next call
// of Next or Feed. After ok false, Err says whether the stream is unusable.
func (p *Parser) Next() (name, data []byte, ok bool) {
	for p.err == nil {
		line, complete := p.line()
		if !complete {
			return nil, nil, false
		}
		if len(line) > 0 {
			p.field(line)
			continue
		}
		name, data, ok = p.name, p.data, p.hasData
		p.name, p.data, p.own, p.hasData = p.name[:0], nil, p.own[:0], false
		if ok {
			return name, data, true
		}
	}
	return nil, nil, false
}

// Err returns the error that makes the stream unusable, nil while it is usable.
func (p *Parser) Err() error { return p.err }

// line takes the next line without its end.
func (p *Parser) line() (line []byte, complete bool) {
	if p.skipLF && len(p.rest) > 0 {
		p.skipLF = false
		if p.rest[0] == '\n' {
			p.rest = p.rest[1:]
		}
	}
	end := bytes.IndexByte(p.rest, '\n')
	before := p.rest
	if end >= 0 {
		before = p.rest[:end]
	}
	if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
		end = cr
	}
	if end < 0 {
		if len(p.carry)+len(p.rest)+len(p.data) > p.max {
			p.err = ErrTooLong
			return nil, false
		}
		p.keep() // data may point into rest or into carry
		p.carry = append(p.carry, p.rest...)
		p.rest = nil
		return nil, false
	}
	line = p.rest[:end]
	if p.rest[end] == '\r' {
		if end+1 == len(p.rest) {
			p.skipLF = true
		} else if p.rest[end+1] == '\n' {
			end++
		}
	}
	p.rest = p.rest[end+1:]
	if len(p.carry) > 0 {
		p.keep() // data may point into the carry of the line before
		line = append(p.carry, line...)
		p.carry = line[:0]
	}
	if len(line)+len(p.data) > p.max {
		p.err = ErrTooLong
		return nil, false
	}
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line, true
}

// field takes a line that is not blank.
func (p *Parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if !p.hasData {
			p.data, p.hasData = value, true
			return
		}
		p.keep()
		p.own = append(append(p.own, '\n'), value...)
		p.data = p.own
	case "event":
		p.name = append(p.name[:0], value...)
	}
}

// keep copies the pending data out of buffers that are about to change.
func (p *Parser) keep() {
	if p.hasData && (len(p.own) == 0 || len(p.data) == 0 || &p.own[0] != &p.data[0]) {
		p.own = append(p.own[:0], p.data...)
		p.data = p.own
	}
}

// ErrChunked is returned for a body that breaks the chunked transfer coding.
var ErrChunked = errors.New("malformed chunked encoding")

// maxChunkLine bounds a chunk's size line with its extensions, and all trailer
// lines together; net/http has the same bound.
const maxChunkLine = 4096

// maxChunkExcess bounds the bytes of chunk lines beyond 16 and twice the data of each chunk, as net/http does.
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

// decode moves the data in b to its front and returns it with the rest of b that follows the end of the body; ended
// reports that end. Data that precedes an error is returned with it.
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
		return fmt.Errorf("%w: too much besides the data", ErrChunked)
	}
	if d.left, d.state = n, chunkData; n == 0 {
		d.state = chunkTrailer
	}
	return nil
}
