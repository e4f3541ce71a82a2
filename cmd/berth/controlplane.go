package main

import (
	"context"

	"github.com/berth-dev/berth/cli"
	"github.com/berth-dev/berth/controlplane"
	"github.com/berth-dev/berth/fleet"
)

// cluster is controlplane.Cluster in the command line's terms.
type cluster struct{ *controlplane.Cluster }

func startControlPlane(ctx context.Context, o cli.ControlPlaneOptions) (cli.ControlPlane, error) {
	c, err := controlplane.Start(ctx, controlplane.Options(o))
	if err != nil {
		return nil, err
	}
	return cluster{c}, nil
}

func (c cluster) KubeletTLS() (fleet.KubeletTLS, error) {
	t, err := c.Cluster.KubeletTLS()
	return fleet.KubeletTLS(t), err
}
