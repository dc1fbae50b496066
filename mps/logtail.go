package mps

import (
	"bytes"
	"io"
	"os"
	"time"
)

// logTail reads the complete lines that are appended to a log file. The file
// may appear later, and may be cut or replaced. Of one that is replaced the rest
// is read too: it is kept open until its successor has something to say, because
// whoever writes it moves on at a time of its own.
type logTail struct {
	path    string
	at      int64
	partial []byte
	file    *os.File // nil: there is none yet
}

const (
	maxLogLine = 64 << 10 // a longer line is no log line
	maxLogRead = 1 << 20  // at each look
)

// newLogTail begins at the end of the file that is there.
func newLogTail(path string) *logTail {
	t := &logTail{path: path}
	if t.open() {
		if info, err := t.file.Stat(); err == nil {
			t.at = info.Size()
		}
	}
	return t
}

// open opens what is at the path now, from its start, and answers whether it is
// a file.
func (t *logTail) open() bool {
	info, err := os.Stat(t.path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(t.path)
	if err != nil {
		return false
	}
	t.close()
	t.file, t.at, t.partial = f, 0, nil
	return true
}

// close may be called at any time.
func (t *logTail) close() {
	if t.file != nil {
		_ = t.file.Close() // opened for reading: nothing can be lost
		t.file = nil
	}
}

// events returns an event for each line that was completed since the last
// call. Missing and unreadable files yield none: they may come.
func (t *logTail) events() []Event {
	if t.file == nil && !t.open() {
		return nil
	}
	events := t.read()
	next, err := os.Stat(t.path)
	if err != nil || next.Size() == 0 {
		return events
	}
	if now, err := t.file.Stat(); err != nil || os.SameFile(now, next) {
		return events
	}
	for more := t.read(); len(more) > 0; more = t.read() { // what was written before the successor was
		events = append(events, more...)
	}
	if len(t.partial) > 0 {
		events = append(events, t.take([]byte("\n"))...)
	}
	if t.open() {
		events = append(events, t.read()...)
	}
	return events
}

// read takes what has been appended to the file.
func (t *logTail) read() []Event {
	info, err := t.file.Stat()
	if err != nil {
		return nil
	}
	if info.Size() < t.at {
		t.at, t.partial = 0, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(t.file, t.at, maxLogRead))
	if err != nil {
		return nil
	}
	t.at += int64(len(data))
	return t.take(data)
}

func (t *logTail) take(data []byte) []Event {
	var events []Event
	t.partial = append(t.partial, data...)
	for {
		i := bytes.IndexByte(t.partial, '\n')
		if i < 0 {
			break
		}
		line := string(t.partial[:i])
		t.partial = t.partial[i+1:]
		if line == "" {
			continue
		}
		r, err := ParseLogLine(line, nil)
		if err != nil {
			events = append(events, Event{Time: time.Now(), Kind: EventError, Err: err})
			continue
		}
		events = append(events, Event{Time: r.Time, Kind: EventLog, Server: r.Server, Client: r.Client, Log: &r})
	}
	if len(t.partial) > maxLogLine {
		events = append(events, Event{Time: time.Now(), Kind: EventError, Err: garbled("log line", 0, string(t.partial[:maxLogLine]))})
		t.partial = nil
	}
	return events
}
