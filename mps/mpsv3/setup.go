package mpsv3

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps"
)

// Setup is the start-up configuration of a v3 daemon, which reads it once as
// TOML (-a) and never writes back, see
// https://docs.nvidia.com/deploy/mps/mpsv3-configuration-file.html.
type Setup struct {
	Servers []ServerSetup
	// MemAcct and ContextShare switch features; missing leaves the daemon's
	// default.
	MemAcct      mps.Optional[bool]
	AuditLog     mps.Optional[bool] // of MemAcct
	ContextShare mps.Optional[bool]
}

// ServerSetup is one server of a Setup. Limits are those of its default
// namespace; other namespaces inherit nothing.
type ServerSetup struct {
	Name            string
	UID             mps.Optional[int] // missing = the daemon's user
	AllowedDevices  []string          // UUIDs; nil = all
	Limits          Limits
	LocalityDomains bool // excludes Partitions
	Namespaces      []NamespaceSetup
	Partitions      []PartitionSpec
}

// NamespaceSetup is one namespace of a ServerSetup.
type NamespaceSetup struct {
	Name   string
	Limits Limits
}

// TOML checks the setup and writes the daemon's configuration file, schema
// version 1.0. The same setup gives the same bytes. A namespace without a
// memory limit or percentage next to others that have one is refused: it would
// have none at all, not its server's.
func (s Setup) TOML() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("schema_version = \"1.0\"\n")
	for _, srv := range s.Servers {
		if err := srv.write(&b); err != nil {
			return nil, err
		}
	}
	if !s.MemAcct.IsZero() || !s.AuditLog.IsZero() {
		b.WriteString("\n[features.memacct]\n")
		writeBool(&b, "enabled", s.MemAcct)
		writeBool(&b, "audit_log", s.AuditLog)
	}
	if !s.ContextShare.IsZero() {
		b.WriteString("\n[features.context-share]\n")
		writeBool(&b, "enabled", s.ContextShare)
	}
	return b.Bytes(), nil
}

func writeBool(b *bytes.Buffer, key string, v mps.Optional[bool]) {
	if on, ok := v.Get(); ok {
		fmt.Fprintf(b, "%s = %t\n", key, on)
	}
}

func (srv ServerSetup) write(b *bytes.Buffer) error {
	table := "servers." + srv.Name
	fmt.Fprintf(b, "\n[%s]\n", table)
	if len(srv.AllowedDevices) > 0 {
		fmt.Fprintf(b, "allowed_devices = %q\n", strings.Join(srv.AllowedDevices, ","))
	}
	if err := srv.Limits.write(b); err != nil {
		return err
	}
	if uid, ok := srv.UID.Get(); ok {
		fmt.Fprintf(b, "uid = %d\n", uid)
	}
	if srv.LocalityDomains {
		b.WriteString("locality_domains = true\n")
	}
	for _, n := range srv.Namespaces {
		fmt.Fprintf(b, "\n[%s.namespaces.%s]\n", table, n.Name)
		if err := n.Limits.write(b); err != nil {
			return err
		}
	}
	var devices []string
	for _, p := range srv.Partitions {
		if !slices.Contains(devices, p.Device) {
			devices = append(devices, p.Device)
		}
	}
	for _, d := range devices {
		fmt.Fprintf(b, "\n[[%s.devices]]\nuuid = %q\n", table, d)
		for _, p := range srv.Partitions {
			if p.Device == d {
				fmt.Fprintf(b, "\n[[%s.devices.sm_partitions]]\nname = %q\nchunks = %d\ninclude_remainder = %t\n", table, p.Name, p.Chunks, p.IncludeRemainder)
			}
		}
	}
	return nil
}

func (n Limits) write(b *bytes.Buffer) error {
	fields, err := n.fields()
	for _, f := range fields {
		fmt.Fprintf(b, "%s = %s\n", strings.ReplaceAll(f[0], "-", "_"), strconv.Quote(f[1]))
	}
	return err
}

func (s Setup) check() error {
	var l problem.List
	if len(s.Servers) == 0 {
		l.Addf("Servers", "configure at least one server", "there is nothing to configure")
	}
	names := map[string]bool{}
	for i, srv := range s.Servers {
		at := fmt.Sprintf("Servers[%d]", i)
		if checkName(&l, at+".Name", srv.Name); names[srv.Name] {
			l.Addf(at+".Name", "give each server its own name", "%q is used twice", problem.Clip(srv.Name))
		}
		names[srv.Name] = true
		srv.check(&l, at)
	}
	return invalid(&l)
}

func (srv ServerSetup) check(l *problem.List, at string) {
	checkUID(l, at+".UID", srv.UID)
	for i, d := range srv.AllowedDevices {
		checkDevice(l, fmt.Sprintf("%s.AllowedDevices[%d]", at, i), d)
	}
	srv.Limits.check(l, at+".Limits")
	limits := srv.Limits
	for _, n := range srv.Namespaces {
		if limits.PinnedMemLimit == 0 {
			limits.PinnedMemLimit = n.Limits.PinnedMemLimit
		}
		if limits.ActiveThreadPercentage == 0 {
			limits.ActiveThreadPercentage = n.Limits.ActiveThreadPercentage
		}
	}
	names := map[string]bool{}
	for i, n := range srv.Namespaces {
		nat := fmt.Sprintf("%s.Namespaces[%d]", at, i)
		if checkName(l, nat+".Name", n.Name); names[n.Name] {
			l.Addf(nat+".Name", "give each namespace its own name", "%q is used twice", problem.Clip(n.Name))
		}
		names[n.Name] = true
		n.Limits.check(l, nat+".Limits")
		if n.Name == "default" {
			continue
		}
		const why = "a namespace inherits nothing: its clients would have no limit next to neighbours that have one"
		if limits.PinnedMemLimit != 0 && n.Limits.PinnedMemLimit == 0 {
			l.Addf(nat+".Limits.PinnedMemLimit", "set it", why)
		}
		if limits.ActiveThreadPercentage != 0 && n.Limits.ActiveThreadPercentage == 0 {
			l.Addf(nat+".Limits.ActiveThreadPercentage", "set it, to 100 for no limit", why)
		}
	}
	if srv.LocalityDomains && len(srv.Partitions) > 0 {
		l.Addf(at+".Partitions", "choose one of them", "locality domains and static SM partitions exclude each other")
	}
	parts := map[[2]string]bool{}
	for i, p := range srv.Partitions {
		pat := fmt.Sprintf("%s.Partitions[%d]", at, i)
		p.check(l, pat)
		if key := [2]string{p.Device, p.Name}; parts[key] {
			l.Addf(pat+".Name", "give each partition of a device its own name", "%q is used twice", problem.Clip(p.Name))
		} else {
			parts[key] = true
		}
	}
}
