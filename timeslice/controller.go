package timeslice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Controller reads and sets the time-slice level of GPUs. It never touches the
// compute mode, and never a GPU that it was not asked to set. Setting needs
// root and does not survive a reboot. A Controller is safe for concurrent use
// when its Runner is.
type Controller struct {
	runner Runner
	log    *slog.Logger
}

// ControllerOptions tune a Controller. The zero value is the default.
type ControllerOptions struct {
	Runner Runner       // nil means Command{}
	Logger *slog.Logger // nil discards
}

// NewController returns a Controller; it runs nothing yet.
func NewController(opts ControllerOptions) *Controller {
	if opts.Runner == nil {
		opts.Runner = SMI{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{runner: opts.Runner, log: opts.Logger}
}

// Support is the answer to whether a GPU has time-slice levels.
type Support struct {
	Answer sharing.Answer
	Reason string // why, in words
	Level  Level  // in force; means something only when Answer is Yes
}

// Probe answers whether the GPU has time-slice levels, and which is in force.
// A refusal by the driver is No; a missing nvidia-smi, a time-out or an answer
// that cannot be read is Unknown, with the reason.
func (c *Controller) Probe(ctx context.Context, device string) Support {
	level, err := c.Level(ctx, device)
	switch {
	case err == nil:
		return Support{Answer: sharing.AnswerYes, Reason: "nvidia-smi lists level " + level.String(), Level: level}
	case errors.Is(err, ErrNotSupported), errors.Is(err, ErrMIG):
		return Support{Answer: sharing.AnswerNo, Reason: err.Error()}
	}
	return Support{Answer: sharing.AnswerUnknown, Reason: err.Error()}
}

// Level reads the level in force on a whole GPU, named by index, UUID or PCI
// bus id.
func (c *Controller) Level(ctx context.Context, device string) (Level, error) {
	const op = "read level"
	text, err := c.ask(ctx, op, device, "compute-policy", "-i", device, "-l")
	if err != nil {
		return 0, err
	}
	level, err := parseLevel(text)
	if err != nil {
		return 0, &OpError{op, device, err}
	}
	return level, nil
}

// SetLevel sets the level on a whole GPU and reads it back. It refuses MIG
// devices, GPUs with MIG enabled, and GPUs of which it could not tell. When
// the level in force afterwards is another, the error is ErrReadBack.
func (c *Controller) SetLevel(ctx context.Context, device string, level Level) error {
	const op = "set level"
	_, err := level.MarshalText()
	if err == nil {
		err = checkDevice(device)
	}
	if err != nil {
		return &OpError{op, device, err}
	}
	mode, err := c.ask(ctx, "read MIG mode", device, "-i", device, "--query-gpu=mig.mode.current", "--format=csv,noheader")
	if err != nil {
		return err
	}
	switch mode = strings.TrimSpace(mode); mode {
	case "Disabled", "[N/A]", "[Not Supported]":
	case "Enabled":
		return &OpError{op, device, ErrMIG}
	default:
		return &OpError{op, device, fmt.Errorf("%w: MIG mode %q", ErrUnreadable, problem.Clip(mode))}
	}
	if _, err := c.ask(ctx, op, device, "compute-policy", "-i", device, "--set-timeslice", strconv.Itoa(int(level))); err != nil {
		return err
	}
	got, err := c.Level(ctx, device)
	if err != nil {
		return &OpError{op, device, fmt.Errorf("the level was set but could not be read back: %w", err)}
	}
	if got != level {
		return &OpError{op, device, fmt.Errorf("%w: set %s, in force %s", ErrReadBack, level, got)}
	}
	c.log.InfoContext(ctx, "time-slice level set", "gpu", device, "level", level.String())
	return nil
}

// ask runs nvidia-smi for one device and returns what it printed.
func (c *Controller) ask(ctx context.Context, op, device string, args ...string) (string, error) {
	if err := checkDevice(device); err != nil {
		return "", &OpError{op, device, err}
	}
	out, err := c.runner.Run(ctx, Invocation{Args: args})
	if err == nil {
		err = refusal(out)
	}
	if err != nil {
		return "", &OpError{op, device, err}
	}
	return out.Stdout, nil
}

// devicePattern admits an index, a GPU UUID (or a prefix of one) and a PCI bus
// id: one device, and nothing that nvidia-smi would take for an option.
var devicePattern = regexp.MustCompile(`^([0-9]{1,3}|GPU-[0-9a-fA-F-]{1,36}|([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])$`)

func checkDevice(device string) error {
	if strings.HasPrefix(device, "MIG-") {
		return ErrMIG
	}
	if !devicePattern.MatchString(device) {
		return fmt.Errorf("%q names no single GPU (use an index, a UUID as GPU-…, or a PCI bus id)", problem.Clip(device))
	}
	return nil
}

// refusal tells the driver's no from success. nvidia-smi says "Not Supported"
// with and without a failing exit code.
func refusal(out Output) error {
	text := strings.TrimSpace(out.Stderr + "\n" + out.Stdout)
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "not supported") && !strings.HasPrefix(strings.TrimSpace(out.Stdout), "[Not Supported]"):
		return ErrNotSupported
	case strings.Contains(lower, "insufficient permissions"):
		return ErrPermission
	case out.ExitCode != 0:
		return fmt.Errorf("nvidia-smi ended with exit code %d: %s", out.ExitCode, problem.Clip(text))
	}
	return nil
}

// parseLevel reads nvidia-smi's list of compute policies of one GPU. Its
// layout is documented nowhere, so any line that names the time slice and
// exactly one level counts, as long as all such lines agree.
func parseLevel(s string) (Level, error) {
	var found []Level
	for line := range strings.Lines(s) {
		words := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' })
		if !slices.Contains(words, "timeslice") && !slices.Contains(words, "time-slice") {
			continue
		}
		var here []Level
		for _, l := range levelNames.Values() {
			if slices.Contains(words, strings.ToLower(l.String())) {
				here = append(here, l)
			}
		}
		if len(here) != 1 {
			return 0, fmt.Errorf("%w: %q names %d levels", ErrUnreadable, problem.Clip(strings.TrimSpace(line)), len(here))
		}
		found = append(found, here[0])
	}
	switch found = slices.Compact(found); len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, fmt.Errorf("%w: no time slice in %q", ErrUnreadable, problem.Clip(strings.TrimSpace(s)))
	}
	return 0, fmt.Errorf("%w: it lists several levels %v for one GPU", ErrUnreadable, found)
}
