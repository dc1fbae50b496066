package mps

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// PartitionID names a static SM partition, as CUDA_MPS_SM_PARTITION takes it:
// "GPU-<uuid>/<id>". IDs of v2 and v3 are not interchangeable.
type PartitionID string

var partitionForm = regexp.MustCompile(`^(GPU|MIG)-[0-9a-zA-Z-]+/[0-9a-zA-Z+=_-]+$`)

// Valid answers whether the ID is of the form "GPU-<uuid>/<id>".
func (p PartitionID) Valid() bool { return len(p) <= 200 && partitionForm.MatchString(string(p)) }

// Split returns the GPU's UUID and the partition's own ID.
func (p PartitionID) Split() (gpu, id string) {
	gpu, id, _ = strings.Cut(string(p), "/")
	return gpu, id
}

// parsePartitionAdd reads both answers of sm_partition add: the bare ID of the
// documentation and "Partition <ID> created" of driver 595's program. Other
// lines, of the CUDA initialisation that the first one causes, are passed over
// only before it.
func parsePartitionAdd(text string) (PartitionID, error) {
	for _, line := range form.Lines(text) {
		id := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(id, "Partition "); ok {
			id, ok = strings.CutSuffix(rest, " created")
			if !ok {
				continue
			}
		}
		if p := PartitionID(id); p.Valid() {
			return p, nil
		}
	}
	return "", garbled("partition ID", 0, text)
}

// Partition is one row of lspart: a device (Partition "") or a static SM
// partition of it. What the daemon does not print for a row is unknown.
type Partition struct {
	GPU        string // beginning of the UUID
	Partition  string // the partition's own ID; "" in the device's row
	FreeChunks sharing.Cell[int]
	UsedChunks sharing.Cell[int]
	FreeSMs    sharing.Cell[int]
	UsedSMs    sharing.Cell[int]
	InUse      sharing.Answer // whether clients use it
}

// parsePartitions reads the table of lspart, whose heading takes two lines.
// The SMs of a partition are not its chunks times the chunk size: left-over
// SMs may belong to it.
func parsePartitions(text string) ([]Partition, error) {
	const what = "table of SM partitions"
	ls := form.Lines(text)
	if len(ls) == 0 {
		return nil, nil
	}
	fold := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if fold(ls[0]) != "GPU Partition free used free used clients" {
		return nil, garbled(what, 1, ls[0])
	}
	if len(ls) < 2 || fold(ls[1]) != "chunk chunk SM SM" {
		return nil, garbled(what, 2, strings.Join(ls[1:], "\n"))
	}
	var out []Partition
	for i, line := range ls[2:] {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		bad := garbled(what, i+3, line)
		if len(f) != 7 || !form.IsUUID(f[0]) {
			return nil, bad
		}
		p := Partition{GPU: f[0]}
		if f[1] != "-" {
			p.Partition = f[1]
		}
		for j, cell := range []*sharing.Cell[int]{&p.FreeChunks, &p.UsedChunks, &p.FreeSMs, &p.UsedSMs} {
			if f[2+j] == "-" {
				continue
			}
			n, err := strconv.ParseUint(f[2+j], 10, 31)
			if err != nil {
				return nil, bad
			}
			*cell = sharing.KnownCell(int(n), SourceDaemon)
		}
		switch strings.ToLower(f[6]) {
		case "yes":
			p.InUse = sharing.AnswerYes
		case "no":
			p.InUse = sharing.AnswerNo
		case "-":
		default:
			return nil, bad
		}
		out = append(out, p)
	}
	return out, nil
}

// AddPartition reserves chunks of a GPU's SMs as a static partition (driver
// 590 and later, Ampere and later, daemon started with StaticPartitioning).
// gpu is a UUID or the unambiguous beginning of one. The partition is looked
// up in lspart before the ID is returned. ErrUnknownCommand on older drivers,
// ErrPartitioningDisabled if the daemon was started without.
func (c *Client) AddPartition(ctx context.Context, gpu string, chunks int) (PartitionID, error) {
	var l problem.List
	if !form.IsUUID(gpu) {
		l.Addf("gpu", `name it by its UUID, "GPU-..."`, "%q is no UUID", problem.Clip(gpu))
	}
	if chunks <= 0 || chunks > 1024 {
		l.Addf("chunks", "Partitions tells how many are free", "%d is no number of chunks", chunks)
	}
	if err := invalid(&l); err != nil {
		return "", err
	}
	id, err := read(ctx, c, parsePartitionAdd, "sm_partition", "add", gpu, strconv.Itoa(chunks))
	if err != nil {
		return "", err
	}
	listed, err := c.listed(ctx, id)
	if err == nil && !listed {
		err = c.opError("sm_partition add", &MismatchError{Setting: "SM partition", Want: string(id)})
	}
	return id, err
}

// RemovePartition gives a partition's SMs back and checks that it is gone.
// ErrPartitionInUse while clients use it.
func (c *Client) RemovePartition(ctx context.Context, id PartitionID) error {
	if !id.Valid() {
		var l problem.List
		l.Addf("id", `use what AddPartition returned, "GPU-<uuid>/<id>"`, "%q is no partition", problem.Clip(string(id)))
		return invalid(&l)
	}
	if _, err := c.do(ctx, "sm_partition", "rm", string(id)); err != nil {
		return err
	}
	listed, err := c.listed(ctx, id)
	if err == nil && listed {
		err = c.opError("sm_partition rm", &MismatchError{Setting: "SM partition", Want: "removed", Got: string(id)})
	}
	return err
}

func (c *Client) listed(ctx context.Context, id PartitionID) (bool, error) {
	rows, err := c.Partitions(ctx)
	gpu, own := id.Split()
	for _, r := range rows {
		if r.Partition == own && strings.HasPrefix(gpu, r.GPU) {
			return true, err
		}
	}
	return false, err
}

// Partitions lists devices and their static SM partitions with the chunks and
// SMs that are free and used.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return read(ctx, c, parsePartitions, "lspart")
}
