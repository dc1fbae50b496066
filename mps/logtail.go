package mps

import (
	"bytes"
	"io"
	"os"
	"time"
)

// logTail reads the complete lines that are appended to a log file. The file
// may appear later, and may be cut or replaced.
type logTail struct {
	path    string
	at      int64
	partial []byte
	last    os.FileInfo
}

const (
	maxLogLine = 64 << 10 // a longer line is no log line
	maxLogRead = 1 << 20  // at each look
)

func newLogTail(path string, fromStart bool) *logTail {
	t := &logTail{path: path}
	if info, err := os.Stat(path); err == nil && !fromStart {
		t.at, t.last = info.Size(), info
	}
	return t
}

// events returns an event for each line that was completed since the last
// call. Missing and unreadable files yield none: they may come.
func (t *logTail) events() []Event {
	f, err := os.Open(t.path)
	if err != nil {
		return nil
	}
	defer f.Close() // opened for reading: nothing can be lost
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if info.Size() < t.at || t.last != nil && !os.SameFile(t.last, info) {
		t.at, t.partial = 0, nil
	}
	t.last = info
	data, err := io.ReadAll(io.NewSectionReader(f, t.at, maxLogRead))
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
