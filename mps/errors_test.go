package mps

import (
	"encoding"
	"errors"
	"testing"
)

// TestRejections reads the refusals that stand in the program of driver 595,
// with the values that it puts in.
func TestRejections(t *testing.T) {
	for text, reason := range map[string]error{
		"Unknown command \"x\"\n": ErrUnknownCommand,
		"Insufficient privileges for UID 1000. Control deamon settings\n": ErrPermission,
		"Not enough privilege to execute quit command\n":                  ErrPermission,
		"A server PID is required":                                        ErrRejected,
		"Server not found":                                                ErrServerNotFound,
		"Server 1 not found\n":                                            ErrServerNotFound,
		"Server 1 not found!\n":                                           ErrServerNotFound,
		"Invalid process 7!":                                              ErrClientNotFound,
		"Invalid UID":                                                     ErrRejected,
		"Invalid start_server cmd. Expected cmd: start_server -uid <user id> [-mlopart]": ErrRejected,
		"UID out of range":                                                  ErrRejected,
		"Server with UID 1000 already exists":                               ErrServerExists,
		"Invalid device identifier format: x":                               ErrRejected,
		"Invalid percentage, expected between (0.0, 100.0]":                 ErrRejected,
		"Server 673 has 2 active worker threads. Server will not shutdown.": ErrServerBusy,
		"Partition GPU-1/a in use. Terminate all clients before removing.":  ErrPartitionInUse,
		"Static partitioning mode is not enabled":                           ErrPartitioningDisabled,
		"Failed to create the requested SM partition of 9 chunks, error 1":  ErrRejected,
		"Failed to query devices":                                           ErrRejected,
		"Invalid priority value - must be 0 or 1!":                          ErrRejected,
		"Invalid number of chunks":                                          ErrRejected,
		"Cannot find MPS control daemon process\n":                          ErrNoDaemon,
	} {
		err := outcome(Output{Stdout: text})
		var r *RejectedError
		if !errors.Is(err, ErrRejected) || !errors.Is(err, reason) || !errors.As(err, &r) {
			t.Errorf("%q: %v, want %v", text, err, reason)
		}
	}
	for _, text := range []string{"", "100.0\n", "673\n711\n", "Server 673\nDevice Ordinal\n", "Partition GPU-1/a created", "Server not"} {
		if err := outcome(Output{Stdout: text}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := outcome(Output{ExitCode: 3, Stderr: "boom"}); !errors.Is(err, ErrCrashed) {
		t.Error(err)
	}
}

type enum interface {
	comparable
	encoding.TextMarshaler
	String() string
}

func checkEnum[T enum](t *testing.T, last T, at func(int) T, parse func([]byte) (T, error)) {
	t.Helper()
	for i := 0; ; i++ {
		v := at(i)
		text, err := v.MarshalText()
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if back, err := parse(text); err != nil || back != v || v.String() != string(text) {
			t.Errorf("%s: %v, %v", text, back, err)
		}
		if v == last {
			break
		}
	}
	if _, err := at(200).MarshalText(); err == nil {
		t.Errorf("%v marshals", at(200))
	}
	if _, err := parse([]byte("nonsense")); !errors.Is(err, ErrInvalid) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestEnums(t *testing.T) {
	checkEnum(t, ProtocolV3, func(i int) Protocol { return Protocol(i) }, func(b []byte) (v Protocol, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, StateFault, func(i int) ServerState { return ServerState(i) }, func(b []byte) (v ServerState, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, PriorityBelowNormal, func(i int) Priority { return Priority(i) }, func(b []byte) (v Priority, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, ShareExact, func(i int) Strategy { return Strategy(i) }, func(b []byte) (v Strategy, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, EnforcerCgroup, func(i int) Enforcer { return Enforcer(i) }, func(b []byte) (v Enforcer, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, SGLang, func(i int) Framework { return Framework(i) }, func(b []byte) (v Framework, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, LogRefusedPercentage, func(i int) LogKind { return LogKind(i) }, func(b []byte) (v LogKind, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, DamageDaemon, func(i int) Damage { return Damage(i) }, func(b []byte) (v Damage, err error) { err = v.UnmarshalText(b); return v, err })
	checkEnum(t, EventError, func(i int) EventKind { return EventKind(i) }, func(b []byte) (v EventKind, err error) { err = v.UnmarshalText(b); return v, err })
}
