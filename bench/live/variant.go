package main

import (
	"context"
	"strconv"
)

// Who is measured.
const (
	whoBare  = "bare"  // binding requests alone
	whoOurs  = "ours"  // berth scheduler
	whoStock = "stock" // kube-scheduler
)

// binders is how many bindings Berth's scheduler has in flight at most, and so has bare.
const binders = 48

// schedule starts a scheduler on the cluster. The stock one gets the feature gates; bare has the rights of ours,
// since asking whether a request is allowed is part of what it costs.
func (c *cluster) schedule(ctx context.Context, who, gates string) (*process, error) {
	switch {
	case who == whoStock:
		return c.part(ctx, who, kubeconfigOf(c.dir, asStock), gates)
	case who == whoBare:
		return c.part(ctx, who, kubeconfigOf(c.dir, asBerth), strconv.Itoa(binders))
	case c.profile != "":
		return c.part(ctx, who, kubeconfigOf(c.dir, asBerth))
	}
	return launch(ctx, c.dir, who, c.berth, schedulerArgs(kubeconfigOf(c.dir, asBerth)), nil)
}
