// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/mps"
)

// command plays one v2 command. It is called with mu held.
func (d *Daemon) command(line string, fault *Fault) string {
	d.refresh()
	w := strings.Fields(line)
	if len(w) == 0 || fault != nil && fault.Kind == "ignore" && strings.HasPrefix(w[0], "set_") {
		return ""
	}
	text, known := d.answer(w[0], w[1:])
	if !known {
		text = fmt.Sprintf("Unknown command \"%s\"", w[0])
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if fault != nil && fault.Kind == "cut" {
		text = text[:max(0, len(text)-2)]
	}
	return text
}

// answer is the answer of a command and whether the fake knows it.
func (d *Daemon) answer(name string, args []string) (string, bool) {
	switch name {
	case "get_server_list":
		return pids(d.servers, func(s *server) int { return s.pid }), true
	case "start_server":
		return d.cmdStartServer(args), true
	case "get_device_client_list":
		return d.deviceClients(args), true
	case "device_query":
		return d.deviceQuery(args), true
	case "quit":
		for _, s := range slices.Clone(d.servers) {
			d.removeServer(s)
		}
		d.gone = true
		return "", true
	}
	if setting, ok := strings.CutPrefix(name, "set_default_"); ok {
		return d.settings.set(setting, args)
	}
	if setting, ok := strings.CutPrefix(name, "get_default_"); ok {
		return d.settings.get(setting, args)
	}
	return d.serverCommand(name, args)
}

func pids[T any](list []T, pid func(T) int) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintln(&b, pid(x))
	}
	return b.String()
}

func (d *Daemon) cmdStartServer(args []string) string {
	if len(args) < 2 || args[0] != "-uid" {
		return "Invalid start_server cmd. Expected cmd: start_server -uid <user id> [-mlopart]"
	}
	uid, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return "Invalid UID"
	}
	if slices.ContainsFunc(d.servers, func(s *server) bool { return s.uid == int(uid) }) {
		return fmt.Sprintf("Server with UID %d already exists", uid)
	}
	d.startServer(int(uid))
	return ""
}

// serverCommand plays the commands with a server as their first argument.
func (d *Daemon) serverCommand(name string, args []string) (answer string, known bool) {
	setting, isSet := strings.CutPrefix(name, "set_")
	setting, isGet := strings.CutPrefix(setting, "get_")
	if !slices.Contains([]string{"server_status", "client_list", "active_thread_percentage", "device_pinned_mem_limit"},
		setting) &&
		!slices.Contains([]string{"shutdown_server", "terminate_client"}, name) {
		return "", false
	}
	if len(args) == 0 {
		return "A server PID is required", true
	}
	s := d.server(args[0])
	if s == nil {
		return fmt.Sprintf("Server %s not found", args[0]) + map[bool]string{true: "!"}[name == "terminate_client"], true
	}
	switch args = args[1:]; {
	case setting == "server_status":
		return "ACTIVE", true
	case setting == "client_list":
		return pids(s.clients, func(c *client) int { return c.PID }), true
	case isSet:
		return s.set(setting, args)
	case isGet:
		return s.get(setting, args)
	case name == "terminate_client":
		return d.terminate(s, args), true
	}
	if force := slices.Contains(args, "-f"); !force && len(s.clients) > 0 {
		return fmt.Sprintf("Server %d has %d active worker threads. Server will not shutdown.", s.pid, len(s.clients)), true
	}
	d.removeServer(s)
	return "", true
}

func (d *Daemon) terminate(s *server, args []string) string {
	if len(args) != 1 {
		return "Invalid command format."
	}
	for _, c := range s.clients {
		if fmt.Sprint(c.PID) == args[0] {
			return "0"
		}
	}
	return fmt.Sprintf("Invalid process %s!", args[0])
}

var limitForm = regexp.MustCompile(`^[0-9]+[GM]$`)

// set plays a setter. A percentage out of range is answered with the one in force, as driver 580 does: the refusal
// is in the log only. Limits are accepted for any device.
func (s *settings) set(setting string, args []string) (answer string, known bool) {
	switch {
	case setting == "active_thread_percentage" && len(args) == 1:
		if v, err := strconv.ParseFloat(args[0], 64); err == nil && v > 0 && v <= 100 {
			s.pct = v
		}
		return s.get(setting, nil)
	case setting == "device_pinned_mem_limit" && len(args) == 2 && limitForm.MatchString(args[1]):
		if !strings.HasPrefix(args[0], "GPU-") && strings.Trim(args[0], "0123456789") != "" {
			return "Invalid device identifier format: " + args[0], true
		}
		s.limits[args[0]] = args[1]
		return "", true
	}
	return "Invalid command format.", setting == "active_thread_percentage" || setting == "device_pinned_mem_limit"
}

func (s *settings) get(setting string, args []string) (answer string, known bool) {
	switch {
	case setting == "active_thread_percentage":
		return fmt.Sprintf("%.1f", s.pct), true
	case setting == "device_pinned_mem_limit" && len(args) == 1:
		return s.limits[args[0]], true
	}
	return "Invalid command format.", setting == "device_pinned_mem_limit"
}

func (d *Daemon) deviceClients(args []string) string {
	var b strings.Builder
	for _, s := range d.servers {
		if len(args) > 0 && fmt.Sprint(s.pid) != args[0] {
			continue
		}
		for _, g := range d.opt.GPUs {
			fmt.Fprintf(&b, "[%d] 00:%02x.0, %s\n", g.Ordinal, g.Ordinal, g.Name)
			for _, c := range s.clients {
				if c.sees(g) {
					fmt.Fprintf(&b, "%d.%d\n", c.PID, c.id)
				}
			}
		}
		if len(args) > 0 {
			return b.String()
		}
	}
	if len(args) > 0 {
		return fmt.Sprintf("Server %s not found", args[0])
	}
	return b.String()
}

func (d *Daemon) deviceQuery(args []string) string {
	var b strings.Builder
	section := func(title string) {
		fmt.Fprintln(&b, title)
		b.WriteString("Device Ordinal  PCI IDs        UUID                                      Name                     " +
			"         Attributes\n")
		for _, g := range d.opt.GPUs {
			fmt.Fprintf(&b, "%-15d %-14s %-41s %-33s N/A\n", g.Ordinal, g.PCI, g.UUID, g.Name)
		}
	}
	if len(args) == 0 {
		section("Default")
	} else if d.server(args[0]) == nil {
		return fmt.Sprintf("Server %s not found", args[0])
	}
	for _, s := range d.servers {
		if len(args) == 0 || args[0] == fmt.Sprint(s.pid) {
			section(fmt.Sprintf("\nServer %d", s.pid))
		}
	}
	return strings.TrimLeft(b.String(), "\n")
}

const noDaemon = "Cannot find MPS control daemon process\n"

// Run plays one run of nvidia-cuda-mps-control.
func (d *Daemon) Run(ctx context.Context, in mps.Invocation) (mps.Output, error) {
	op := cmp.Or(strings.Join(in.Args, " "), strings.TrimSpace(in.Stdin))
	fault := d.takeFault(op)
	if fault != nil {
		if out, err, done := fault.before(ctx); done {
			return out, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone || pipeOf(in.Env) != d.opt.PipeDirectory {
		return mps.Output{Stdout: noDaemon, ExitCode: 1}, nil
	}
	if len(in.Args) > 0 {
		d.commands = append(d.commands, op)
		return mps.Output{Stdout: d.command(op, nil)}, nil
	}
	out := mps.Output{}
	for line := range strings.Lines(in.Stdin) {
		line = strings.TrimRight(line, "\r\n")
		d.commands = append(d.commands, line)
		out.Stdout += d.command(line, fault)
	}
	return out, nil
}
