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

		SuggestFor: []string{"stop", "delete", "destroy"},
		Args:       cobra.NoArgs,
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
		return downNothing(s, root, name, purge)
	}
	if err != nil {
		return err
	}
	if d.Linked() && r.Name != name {
		return downOther(s, root, name, r.Name, purge)
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

// downNothing is for a name without a cluster. To purge that is done already; to stop it is a mistake.
func downNothing(s Streams, root, name string, purge bool) error {
	if !purge {
		return fmt.Errorf("there is no cluster %q; `berth status` lists those there are", name)
	}
	if holder := home.Named(root, name).Holder(); holder != 0 {
		return fmt.Errorf("cluster %q is being started by process %d: try again", name, holder)
	}
	if err := home.Forget(root, name); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "There is no cluster %q: nothing to remove\n", name)
	return nil
}

// downOther is for a name that leads to the folder of another cluster, which is not stopped, let alone removed, by it.
func downOther(s Streams, root, name, other string, purge bool) error {
	if !purge {
		return fmt.Errorf("%q leads to the data of cluster %q: `berth down --name %s` stops that, `berth down --name %s --purge` removes the name alone", name, other, other, name)
	}
	if err := home.Forget(root, name); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "The name %q is gone; it led to the data of cluster %q, which stays\n", name, other)
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
