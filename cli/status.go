package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/controlplane/home"
)

// clusterStatus is one cluster as `berth status -o json` shows it.
type clusterStatus struct {
	Name       string      `json:"name"`
	State      string      `json:"state"` // Running, Starting, Stopped
	Kubernetes string      `json:"kubernetes"`
	Server     string      `json:"server"`
	Fleet      string      `json:"fleet,omitempty"`
	Ephemeral  bool        `json:"ephemeral,omitempty"`
	PID        int         `json:"pid,omitempty"`
	Started    string      `json:"started,omitempty"`
	Data       string      `json:"data"`
	Kubeconfig string      `json:"kubeconfig"`
	Observed   *clusterUse `json:"observed,omitempty"` // nil: not running, or did not answer

	crash string // file with what it wrote when it crashed; "": it was stopped, or said nothing
}

func newCmdStatus(s Streams) *cobra.Command {
	var name, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the clusters on this machine",

		SuggestFor: []string{"list", "ls", "clusters"},
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			all, err := statuses(cmd.Context(), name)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			return failed(printStatuses(s, all, output))
		},
	}
	nameFlag(cmd, &name, "", "only the cluster of this name")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, wide, json, yaml or name")
	return cmd
}

func checkOutput(o string) error {
	switch o {
	case "table", "wide", "json", "yaml", "name":
		return nil
	}
	return fmt.Errorf("--output %q: use table, wide, json, yaml or name", o)
}

func statuses(ctx context.Context, name string) ([]clusterStatus, error) {
	root, err := home.Root()
	if err != nil {
		return nil, err
	}
	dirs, err := home.List(root)
	if err != nil {
		return nil, err
	}
	all := []clusterStatus{}
	for _, d := range dirs {
		if n := filepath.Base(d.Path); name != "" && n != name {
			continue
		}
		st, err := status(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	if name != "" && len(all) == 0 {
		return nil, absent(root, name)
	}
	return all, nil
}

func status(ctx context.Context, d home.Dir) (clusterStatus, error) {
	r, err := d.Load()
	if err != nil {
		return clusterStatus{}, err
	}
	data, err := filepath.EvalSymlinks(d.Path)
	if err != nil {
		return clusterStatus{}, err
	}
	st := clusterStatus{
		Name: filepath.Base(d.Path), State: "Stopped", Kubernetes: r.Kubernetes, Fleet: r.Fleet, Ephemeral: r.Ephemeral,
		Server: fmt.Sprintf("https://127.0.0.1:%d", r.APIPort), Data: data, Kubeconfig: d.Kubeconfig(),
	}
	pid := d.Holder()
	if pid == 0 {
		if info, err := os.Stat(d.Stderr()); err == nil && info.Size() > 0 && r.PID != 0 {
			st.crash = d.Stderr()
		}
		return st, nil
	}
	st.State, st.PID, st.Started = "Starting", pid, r.Started
	if r.Ready && r.PID == pid {
		st.State = "Running"
		if use, err := look(ctx, d); err == nil {
			st.Observed = &use
		}
	}
	return st, nil
}

func printStatuses(s Streams, all []clusterStatus, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"clusters": all})
	case "yaml":
		b, err := yaml.Marshal(map[string]any{"clusters": all})
		if err != nil {
			return err
		}
		_, err = s.Out.Write(b)
		return err
	case "name":
		for _, c := range all {
			fmt.Fprintln(s.Out, c.Name)
		}
		return nil
	}
	return printStatusTable(s, all, output == "wide")
}

func printStatusTable(s Streams, all []clusterStatus, wide bool) error {
	if len(all) == 0 {
		fmt.Fprintln(s.Err, "No clusters here. Start one with `berth up`.")
		return nil
	}
	lines := table{columns: []column{
		{head: "NAME"}, {head: "STATE"}, {head: "FLEET", text: true}, {head: "NODES"}, {head: "GPUS"}, {head: "USED", spare: 1},
		{head: "KUBERNETES", spare: 3}, {head: "SERVER"}, {head: "AGE", spare: 2},
	}}
	columns := width(s.Out)
	if wide {
		lines.columns = append(lines.columns, column{head: "PID"}, column{head: "DATA"})
		columns = 0
	}
	for _, c := range all {
		nodes, gpus, used := "-", "-", "-"
		if c.Observed != nil {
			nodes = fmt.Sprintf("%d/%d", c.Observed.Nodes.Ready, c.Observed.Nodes.Total)
			gpus = fmt.Sprintf("%d/%d", c.Observed.GPUs.Requested, c.Observed.GPUs.Allocatable)
			used = c.Observed.GPUs.share()
		}
		row := []string{c.Name, c.State, c.Fleet, nodes, gpus, used, c.Kubernetes, c.Server, age(c.Started)}
		if wide {
			row = append(row, fmt.Sprint(c.PID), c.Data)
		}
		lines.add(row...)
	}
	if err := lines.write(s.Out, columns); err != nil {
		return err
	}
	for _, c := range all {
		if c.crash != "" {
			fmt.Fprintf(s.Err, "Cluster %q was not stopped: it crashed, and %s says how. `berth up --name %s` starts it again.\n", c.Name, c.crash, c.Name)
		}
	}
	return nil
}

func age(started string) string {
	t, err := time.Parse(time.RFC3339, started)
	if err != nil {
		return "-"
	}
	return duration.HumanDuration(time.Since(t))
}

// nameFlag adds --name, which completes to the clusters there are.
func nameFlag(cmd *cobra.Command, name *string, def, usage string) {
	cmd.Flags().StringVar(name, "name", def, usage)
	cmd.RegisterFlagCompletionFunc("name", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		root, err := home.Root()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		dirs, err := home.List(root)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, d := range dirs {
			names = append(names, filepath.Base(d.Path))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// absent says that there is no cluster of the name, how to start it, and which others there are.
func absent(root, name string) error {
	text := fmt.Sprintf("there is no cluster %q: `berth up --name %s` starts one", name, name)
	if dirs, err := home.List(root); err == nil && len(dirs) > 0 {
		var others []string
		for _, d := range dirs {
			others = append(others, filepath.Base(d.Path))
		}
		text += ", and --name chooses another (" + strings.Join(others, ", ") + ")"
	}
	return errors.New(text)
}

// running is the folder of the named cluster, which must be up.
func running(name string) (home.Dir, error) {
	root, err := home.Root()
	if err != nil {
		return home.Dir{}, err
	}
	d := home.Named(root, name)
	r, err := d.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return d, absent(root, name)
	}
	if err != nil {
		return d, err
	}
	if pid := d.Holder(); pid == 0 || pid != r.PID {
		return d, fmt.Errorf("cluster %q is not running: `berth up --name %s` starts it", name, name)
	}
	return d, nil
}
