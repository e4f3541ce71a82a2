package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/fleet/file"
)

func newCmdFleet(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Look at and change the simulated fleet",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: suggestDistance,
	}
	cmd.AddCommand(newCmdFleetApply(s), newCmdFleetShow(s), newCmdFleetPresets(s), newCmdFleetFault(s))
	return cmd
}

func newCmdFleetApply(s Streams) *cobra.Command {
	var name, from string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|PRESET",
		Short: "Make the running fleet match a fleet file",
		Long: `Make the running fleet match a fleet file: pools in the file are created or changed,
pools that are not in it are removed with their nodes.`,
		Example: "  berth fleet show > fleet.yaml   # edit it, then\n  berth fleet apply -f fleet.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return failed(fleetApply(cmd.Context(), s, name, from, dryRun))
		},
	}
	cmd.Flags().StringVarP(&from, "filename", "f", "", "fleet file or preset")
	nameFlag(cmd, &name, defaultName, "name of the cluster")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check the file and say what would change")
	cmd.MarkFlagRequired("filename")
	return cmd
}

func fleetApply(ctx context.Context, s Streams, name, from string, dryRun bool) error {
	pools, err := file.Load(from)
	if err != nil {
		return err
	}
	dir, err := running(name)
	if err != nil {
		return err
	}
	cfg, err := clientConfig(dir)
	if err != nil {
		return err
	}
	changes, err := fleet.Apply(ctx, cfg, pools, dryRun)
	note := ""
	if dryRun {
		note = " (dry run)"
	}
	for _, c := range changes {
		fmt.Fprintln(s.Out, c+note)
	}
	if err == nil && len(changes) == 0 {
		fmt.Fprintln(s.Out, "nothing to change")
	}
	return err
}

func newCmdFleetShow(s Streams) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the running fleet as a fleet file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := running(name)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			cfg, err := clientConfig(dir)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			pools, err := fleet.Pools(cmd.Context(), cfg)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			_, err = s.Out.Write(file.Format(pools))
			return failed(err)
		},
	}
	nameFlag(cmd, &name, defaultName, "name of the cluster")
	return cmd
}

func newCmdFleetPresets(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "presets",
		Short: "List the fleets that come with Berth",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
			fmt.Fprintln(w, "PRESET\tWHAT")
			for _, p := range file.Presets() {
				fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Summary)
			}
			return failed(w.Flush())
		},
	}
}
