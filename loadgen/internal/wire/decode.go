// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
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
