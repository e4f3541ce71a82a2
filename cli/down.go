package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/controlplane/home"
)

// stopLimit is how long a cluster may take to stop by itself.
const stopLimit = 45 * time.Second

func newCmdDown(s Streams) *cobra.Command {
	var name string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster; its data stays unless --purge",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := home.CheckName(name); err != nil {
				return err
			}
			return failed(downRun(cmd.Context(), s, name, purge))
		},
	}
	nameFlag(cmd, &name, defaultName, "name of the cluster")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the cluster's data, keys and kubeconfig")
	return cmd
}

func downRun(ctx context.Context, s Streams, name string, purge bool) error {
	root, err := home.Root()
	if err != nil {
		return err
	}
	d := home.Named(root, name)
	r, err := d.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no cluster %q; `berth status` lists those there are", name)
	}
	if err != nil {
		return err
	}
	wasUp, err := stopCluster(ctx, s, d)
	if err != nil {
		return err
	}
	if _, err := d.Load(); r.Ephemeral && errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(s.Out, "Cluster %q is gone\n", name)
		return nil
	}
	if purge || r.Ephemeral {
		return purgeCluster(s, name, d)
	}
	if wasUp {
		fmt.Fprintf(s.Out, "Cluster %q is stopped; its data stays in %s\n", name, d.Path)
		return nil
	}
	fmt.Fprintf(s.Out, "Cluster %q was not running; `berth down --name %s --purge` removes its data\n", name, name)
	return nil
}

// stopCluster asks the process that holds d to end, and waits for it.
func stopCluster(ctx context.Context, s Streams, d home.Dir) (wasUp bool, err error) {
	pid := d.Holder()
	if pid == 0 {
		return false, nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return true, fmt.Errorf("stop process %d: %w", pid, err)
	}
	p := newProgress(s.Err)
	defer p.end(nil)
	p.doing("stopping")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(stopLimit)
	for d.Holder() != 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-limit:
			return true, fmt.Errorf("process %d has not ended after %s: `kill -9 %d` ends it, nothing stored is lost", pid, stopLimit, pid)
		}
	}
	return true, nil
}

func purgeCluster(s Streams, name string, link home.Dir) error {
	path, err := filepath.EvalSymlinks(link.Path)
	if err != nil {
		return err
	}
	d := home.Dir{Path: path}
	lock, err := d.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := unmergeKubeconfig(name, d); err != nil {
		return err
	}
	if err := d.Purge(link.Path); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(s.Out, "Cluster %q is gone; %s holds other files and stays\n", name, path)
		return nil
	}
	fmt.Fprintf(s.Out, "Cluster %q is gone\n", name)
	return nil
}
