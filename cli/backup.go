package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/kube/install"
)

type backupOptions struct {
	installOptions
	file string // to write; "": standard output
}

func newCmdBackup(s Streams) *cobra.Command {
	o := &backupOptions{installOptions: installOptions{streams: s}}
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save a cluster's reservations and queues, with their usage, budgets and promises",
		Long: `Write all queues and reservations of a cluster as YAML: their specs, and what Berth keeps in their status: usage,
spent budgets, promised start times. Workloads are not included. ` + "`berth restore`" + ` reads the file.

Usage is at most a minute old while a scheduler leads.`,
		Example: `  berth backup --context prod -o berth-backup.yaml
  berth backup --context prod | gzip > backup.yaml.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return failed(backupRun(cmd.Context(), o)) },
	}
	o.connection.flags(cmd)
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "file to write, readable by you alone (default: standard output)")
	return cmd
}

func backupRun(ctx context.Context, o *backupOptions) error {
	client, err := o.administer()
	if err != nil {
		return err
	}
	text, n, err := install.Backup(ctx, client.Discovery().RESTClient())
	if err != nil {
		return err
	}
	if o.file == "" {
		_, err := o.streams.Out.Write(text)
		return err
	}
	if err := writeWhole(o.file, text); err != nil {
		return err
	}
	fmt.Fprintf(o.streams.Out, "%d objects in %s\n", n, o.file)
	return nil
}

// writeWhole replaces the file, or leaves it as it is: an earlier backup is not lost to a disk that is full.
func writeWhole(file string, text []byte) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, text, 0o600) // a pipe or a device has nothing to lose
	}
	if err := home.WriteFile(file, text); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func newCmdRestore(s Streams) *cobra.Command {
	o := &installOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the queues, usage, budgets, promises and reservations of a backup",
		Long: `Restore the queues and reservations of a backup to a cluster, with the usage of the queues, their spent budgets and
promised start times. FILE is what ` + "`berth backup`" + ` wrote; - is standard input. Queues that are not in the backup stay as
they are.

No scheduler may lead meanwhile: it would overwrite what is restored with its own state. Berth's kinds must be installed:
install with --replicas 0 first.`,
		Example: `  berth install --context prod --replicas 0
  berth restore --context prod berth-backup.yaml
  berth install --context prod`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return failed(restoreRun(cmd.Context(), o, args[0]))
		},
	}
	o.connection.flags(cmd)
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "have the API server check every object, and write nothing")
	return cmd
}

func restoreRun(ctx context.Context, o *installOptions, file string) error {
	text, err := readBackup(o.streams.In, file)
	if err != nil {
		return err
	}
	list, err := install.ReadBackup(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	client, err := o.administer()
	if err != nil {
		return err
	}
	who, err := install.Leading(ctx, client, time.Now())
	if err != nil {
		return err
	}
	if who != "" {
		return fmt.Errorf("scheduler %s leads and would overwrite what is restored; nothing was written: stop it first, with kubectl -n kube-system scale deployment %s --replicas 0", who, install.Name)
	}
	return install.Restore(ctx, client.Discovery().RESTClient(), list, o.dry, func(r install.Result) {
		if o.dry {
			r.Did = "would be " + r.Did
		}
		o.tell(r)
	})
}

func readBackup(in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, install.BackupLimit+1))
}
