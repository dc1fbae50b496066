package mps

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// LogRecord is one line of control.log or server.log.
type LogRecord struct {
	Time      time.Time
	Component string // "Control", "Server", "Other", "Legacy Server"
	PID       int    // the process that wrote the line
	Text      string

	Kind LogKind // what the text says, LogOther if not recognised
	// What the text names; a process ID is 0 where it names none.
	Server, Client int
	UID            Optional[int]
	Device         Optional[int] // ordinal
	// Value is the rest that the Kind describes, e.g. a version or a percentage.
	Value string
	Limit sharing.Bytes // of LogMemLimit
}

// LogKind is what a log line says. The zero value is LogOther.
type LogKind uint8

// The kinds of log lines, from a recording of driver 580, the program of driver
// 595 and https://docs.nvidia.com/deploy/mps/appendix-logging.html.
const (
	LogOther         LogKind = iota
	LogDaemonStart           // the control daemon starts; Value is its socket
	LogPipeDirectory         // Value is the pipe directory that clients must set
	LogBinaryVersion         // Value is the version of daemon or server, e.g. "13000"
	LogDriverVersion         // Value is the display driver's version, e.g. "580"
	LogCommand               // a command reached the daemon; Value is the command
	LogServerStarting
	LogServerReady
	LogServerExit        // Value is the exit status
	LogServerFatal       // the server met a fatal exception
	LogGPUFault          // the server handles a fatal GPU fault
	LogClientRequest     // a client asks for a server
	LogClientConnected   // a client is connected
	LogClientStatus      // Value is ACTIVE or INACTIVE
	LogStickyError       // the clients of the lines that follow have a sticky error
	LogServerContext     // the server made its context on Device; Value is the name
	LogThreadPercentage  // Value is the percentage in force
	LogMemLimit          // Limit is in force on Device
	LogRefusedPercentage // a percentage was refused, though the command's answer does not say so
)

var logKindNames = enum.Of[LogKind](ErrInvalid, "log kind", "other", "daemon-start", "pipe-directory", "binary-version", "driver-version", "command",
	"server-starting", "server-ready", "server-exit", "server-fatal", "gpu-fault", "client-request", "client-connected",
	"client-status", "sticky-error", "server-context", "thread-percentage", "mem-limit", "refused-percentage")

// String returns the kind's text, for example "gpu-fault".
func (k LogKind) String() string { return logKindNames.String(k) }

// MarshalText returns the kind's text.
func (k LogKind) MarshalText() ([]byte, error) { return logKindNames.Text(k) }

// UnmarshalText reads what String writes.
func (k *LogKind) UnmarshalText(b []byte) error { return logKindNames.Parse(k, b) }

var (
	logLine = regexp.MustCompile(`^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ((?:[A-Z][A-Za-z]*)(?: [A-Z][A-Za-z]*)*)\s+(\d+)\] ?(.*)$`)

	// The names of groups say where the text goes.
	logPatterns = []struct {
		kind LogKind
		form *regexp.Regexp
	}{
		{LogDaemonStart, regexp.MustCompile(`^Starting control daemon using socket (?P<value>\S+)$`)},
		{LogPipeDirectory, regexp.MustCompile(`set (?:env )?CUDA_MPS_PIPE_DIRECTORY=(?P<value>.+)$`)},
		{LogBinaryVersion, regexp.MustCompile(`^CUDA MPS (?:Control|Server for \S+ ?\S*?)\.? ?[Bb]inary version: (?P<value>\d+)$`)},
		{LogDriverVersion, regexp.MustCompile(`^Display Driver version: (?P<value>[\d.]+)$`)},
		{LogCommand, regexp.MustCompile(`^Cmd:(?P<value>.*)$`)},
		{LogServerStarting, regexp.MustCompile(`^Starting new server (?P<server>\d+) for user (?P<uid>\d+)$`)},
		{LogServerReady, regexp.MustCompile(`^NEW SERVER (?P<server>\d+): Ready$`)},
		{LogServerExit, regexp.MustCompile(`^Server (?P<server>\d+) exited with status (?P<value>-?\d+)$`)},
		{LogServerFatal, regexp.MustCompile(`^Server encountered a fatal exception`)},
		{LogGPUFault, regexp.MustCompile(`handling a fatal GPU error`)},
		{LogClientRequest, regexp.MustCompile(`^NEW CLIENT (?P<client>\d+) from user (?P<uid>\d+)`)},
		{LogClientRequest, regexp.MustCompile(`^Received new client request for \{PID: (?P<client>\d+)`)},
		{LogClientConnected, regexp.MustCompile(`^New client (?P<client>\d+) connected$`)},
		{LogClientConnected, regexp.MustCompile(`^Client \{PID: (?P<client>\d+), Context ID: \d+\} connected$`)},
		{LogClientStatus, regexp.MustCompile(`status of client \{(?P<client>\d+), *\d+\} is (?P<value>ACTIVE|INACTIVE)`)},
		{LogStickyError, regexp.MustCompile(`clients have a sticky error set`)},
		{LogServerContext, regexp.MustCompile(`^Creating server context on device (?P<device>\d+)(?: \((?P<value>[^)]*)\))?$`)},
		{LogThreadPercentage, regexp.MustCompile(`^Active Threads Percentage set to (?P<value>[\d.]+)$`)},
		{LogMemLimit, regexp.MustCompile(`^Device pinned memory limit for device (?P<device>\d+) set to 0x(?P<limit>[0-9a-f]+) bytes$`)},
		{LogRefusedPercentage, regexp.MustCompile(`^Invalid percentage`)},
	}
)

// ParseLogLine reads one complete line of control.log or server.log. The log
// prints local time without a zone; loc nil means time.Local. A line of
// another form, for example one cut off while it is being written, is a
// ParseError.
func ParseLogLine(line string, loc *time.Location) (LogRecord, error) {
	bad := garbled("log line", 0, line)
	if loc == nil {
		loc = time.Local
	}
	line = strings.TrimRight(line, "\r\n")
	m := logLine.FindStringSubmatch(line)
	if m == nil || checkText(line) != nil {
		return LogRecord{}, bad
	}
	t, err := time.ParseInLocation("2006-01-02 15:04:05.000", m[1], loc)
	pid, ok := form.PID(m[3])
	if err != nil || !ok {
		return LogRecord{}, bad
	}
	r := LogRecord{Time: t, Component: m[2], PID: pid, Text: m[4]}
	for _, p := range logPatterns {
		if g := p.form.FindStringSubmatch(r.Text); g != nil {
			r.Kind = p.kind
			for i, name := range p.form.SubexpNames() {
				r.take(name, g[i])
			}
			break
		}
	}
	if r.Component == "Server" && r.Server == 0 {
		r.Server = pid
	}
	return r, nil
}

func (r *LogRecord) take(name, text string) {
	n, _ := strconv.Atoi(text) // the patterns let only digits through, but perhaps too many: then it is the largest
	switch name {
	case "server":
		r.Server = n
	case "client":
		r.Client = n
	case "uid":
		r.UID = Some(n)
	case "device":
		r.Device = Some(n)
	case "value":
		r.Value = text
	case "limit":
		if v, err := strconv.ParseInt(text, 16, 64); err == nil {
			r.Limit = sharing.Bytes(v)
		}
	}
}
