package mps

import (
	"context"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/internal/form"
)

// AddPartition reserves chunks of a GPU's SMs as a static partition (driver
// 590 and later, Ampere and later, daemon started with StaticPartitioning).
// gpu is a UUID or the unambiguous beginning of one. The partition is looked
// up in lspart before the ID is returned. ErrUnknownCommand on older drivers,
// ErrPartitioningDisabled if the daemon was started without.
func (c *Client) AddPartition(ctx context.Context, gpu string, chunks int) (PartitionID, error) {
	var l problem.List
	if !form.IsUUID(gpu) {
		l.Addf("gpu", `name it by its UUID, "GPU-..."`, "%q is no UUID", clip(gpu))
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
		l.Addf("id", `use what AddPartition returned, "GPU-<uuid>/<id>"`, "%q is no partition", clip(string(id)))
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
	return read(ctx, c, ParsePartitions, "lspart")
}
