package mpsv3

import (
	"context"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/internal/form"
)

// Client talks to a control daemon with protocol v3. It is safe for concurrent
// use.
type Client struct{ c *mps.Client }

// NewClient returns a v3 client of the daemon that c talks to.
func NewClient(c *mps.Client) *Client { return &Client{c} }

func (v *Client) opError(args []string, err error) error {
	return &mps.OpError{Op: problem.Clip(strings.Join(args, " ")), Device: v.c.PipeDirectory(), Err: err}
}

func (v *Client) do(ctx context.Context, args ...string) (string, error) {
	for _, a := range args {
		if !form.IsWord(a) {
			return "", v.opError(args[:1], fmt.Errorf("%w: %q is no argument", mps.ErrInvalid, problem.Clip(a)))
		}
	}
	return v.c.Command(ctx, mps.Invocation{Args: args, Env: []string{mps.EnvProtocol + "=3"}})
}

// list runs a list command, for one server or for all ("", with the flags of
// all), and parses each row of its answer.
func list[T any](ctx context.Context, v *Client, parse func(row string) (T, bool), server, command string, all ...string) ([]T, error) {
	args := append(strings.Fields(command), all...)
	if server != "" {
		if err := names(&problem.List{}, "server", server); err != nil {
			return nil, err
		}
		args = append(strings.Fields(command), "--server="+server)
	}
	text, err := v.do(ctx, append(args, "--format=csv,noheader")...)
	if err != nil {
		return nil, err
	}
	var out []T
	for i, row := range form.Lines(text) {
		x, ok := parse(row)
		if !ok {
			return nil, v.opError(args, &mps.ParseError{What: "row of " + command, Line: i + 1, Text: problem.Clip(row)})
		}
		out = append(out, x)
	}
	return out, nil
}

// find looks for a row of a list.
func find[T any](rows []T, err error, match func(T) bool) (T, bool, error) {
	if i := slices.IndexFunc(rows, match); err == nil && i >= 0 {
		return rows[i], true, nil
	}
	var none T
	return none, false, err
}

// create runs a create command and returns what it made as the daemon lists it.
func create[T any](ctx context.Context, v *Client, listed func() (T, bool, error), args ...string) (T, error) {
	if _, err := v.do(ctx, args...); err != nil {
		var none T
		return none, err
	}
	got, ok, err := listed()
	if err == nil && !ok {
		err = v.opError(args[:3], &mps.MismatchError{Setting: args[0], Want: args[2]})
	}
	return got, err
}

// remove runs a delete command and makes sure that the thing is gone.
func remove[T any](ctx context.Context, v *Client, listed func() (T, bool, error), args ...string) error {
	if _, err := v.do(ctx, args...); err != nil {
		return err
	}
	_, there, err := listed()
	if err == nil && there {
		err = v.opError(args[:3], &mps.MismatchError{Setting: args[0], Want: "deleted", Got: args[2]})
	}
	return err
}

// fields splits a row into exactly width fields. A last field with commas of
// its own, a command line, takes them all.
func fields(row string, width int) ([]string, bool) {
	f := strings.SplitN(row, ",", width)
	if strings.Contains(row, `"`) {
		// A command line may hold quotes that quote nothing.
		if rec, err := csv.NewReader(strings.NewReader(row)).Read(); err == nil {
			f = rec
		}
	}
	return f, len(f) == width
}

// field runs a get command, whose answer is one bare value.
func (v *Client) field(ctx context.Context, args ...string) (string, error) {
	text, err := v.do(ctx, args...)
	if err != nil {
		return "", err
	}
	ls := form.Lines(text)
	if len(ls) > 1 {
		return "", v.opError(args, &mps.ParseError{What: "value", Text: problem.Clip(text)})
	}
	return strings.TrimSpace(strings.Join(ls, "")), nil
}

// count reads a number of devices, SMs or chunks.
func count(s string, ok *bool) int {
	n, err := strconv.ParseUint(s, 10, 16)
	*ok = *ok && err == nil
	return int(n)
}

func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

var nameForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// checkName accepts names of servers, namespaces and partitions.
func checkName(l *problem.List, path, name string) {
	if !nameForm.MatchString(name) {
		l.Addf(path, "use 1 to 64 lower-case letters, digits and underscores", "%q is no name", problem.Clip(name))
	}
}

func checkDevice(l *problem.List, path, uuid string) {
	if !form.IsUUID(uuid) {
		l.Addf(path, `name it by its UUID, "GPU-..."`, "%q is no UUID", problem.Clip(uuid))
	}
}

func checkUID(l *problem.List, path string, uid mps.Optional[int]) {
	if n := uid.Or(0); n < 0 || int64(n) > 1<<32-2 {
		l.Addf(path, "use a user ID of the system", "%d is no user ID", n)
	}
}

func invalid(l *problem.List) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", mps.ErrInvalid, err)
	}
	return nil
}

// names checks names, each given after what it is.
func names(l *problem.List, kindAndName ...string) error {
	for i := 0; i < len(kindAndName); i += 2 {
		checkName(l, kindAndName[i], kindAndName[i+1])
	}
	return invalid(l)
}

// Quit ends the daemon with all its servers.
func (v *Client) Quit(ctx context.Context) error {
	_, err := v.do(ctx, "-q")
	return err
}
