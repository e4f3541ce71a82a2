package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/fleet/drill"
)

func newCmdDrill(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Practise on short incidents: find the cause and repair it",
		Long: `Practise on short incidents. Each breaks something in the running cluster. Find the cause with kubectl and
` + "`berth why`" + `, repair it by hand, and let ` + "`berth drill check`" + ` judge the result. Drills run in the namespace ` + drill.Namespace + `.`,
		Example: "  berth drill list\n  berth drill start label-typo\n  berth drill hint\n  berth drill check\n  berth drill stop",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: suggestDistance,
	}
	cmd.AddCommand(newCmdDrillList(s), newCmdDrillStart(s), newCmdDrillHint(s), newCmdDrillCheck(s), newCmdDrillStop(s))
	return cmd
}

func newCmdDrillList(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the drills",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
			fmt.Fprintln(w, "DRILL\tREPORT")
			for _, d := range drill.All() {
				fmt.Fprintf(w, "%s\t%s\n", d.Name, d.Report)
			}
			return failed(w.Flush())
		},
	}
}

func newCmdDrillStart(s Streams) *cobra.Command {
	var cluster string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "start NAME",
		Short: "Start a drill",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, ok := drill.Find(args[0])
			if !ok {
				return fmt.Errorf("there is no drill %q; `berth drill list` lists them", args[0])
			}
			if !cmd.Flags().Changed("seed") {
				seed = rand.Uint64N(1_000_000)
			}
			return onGround(cluster, func(g *drill.Ground) error {
				state, err := g.Start(cmd.Context(), d, seed)
				if err != nil {
					return failed(err)
				}
				fmt.Fprintf(s.Out, "%s\n\nThe work is deployment/%s in namespace %s; it should have %d pods that run. (Drill %s.)\n`berth drill hint` helps, `berth drill check` checks.\n",
					d.Report, state.Work, drill.Namespace, state.Replicas, state.Scene)
				return nil
			})
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, d := range drill.All() {
					out = append(out, d.Name+"\t"+d.Report)
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed of names, sizes and places (default drawn)")
	nameFlag(cmd, &cluster, defaultName, "name of the cluster")
	return cmd
}

// onGround runs f on a cluster; where no drill is under way, nothing could be looked at.
func onGround(cluster string, f func(*drill.Ground) error) error {
	cfg, err := clusterConfig(cluster)
	if err != nil {
		return err
	}
	g, err := drill.New(cfg)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	err = f(g)
	if errors.Is(err, drill.ErrNone) {
		return exitError{code: exitUnknown, err: err}
	}
	return err
}

func newCmdDrillHint(s Streams) *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use:   "hint",
		Short: "Print the next hint of the running drill; the last one is the repair",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onGround(cluster, func(g *drill.Ground) error {
				text, n, of, err := g.Hint(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "Hint %d of %d: %s\n", n, of, text)
				return failed(err)
			})
		},
	}
	nameFlag(cmd, &cluster, defaultName, "name of the cluster")
	return cmd
}

func newCmdDrillCheck(s Streams) *cobra.Command {
	var cluster, output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether the drill is mended, how long it took, and what remains",
		Long:  "Check whether the drill is mended, how long it took, and what remains.\n\nExit status: 0 it is mended, 1 it is not, 3 this cannot be determined.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return onGround(cluster, func(g *drill.Ground) error { return drillCheck(cmd.Context(), s, g, output) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	nameFlag(cmd, &cluster, defaultName, "name of the cluster")
	return cmd
}

func drillCheck(ctx context.Context, s Streams, g *drill.Ground, output string) error {
	v, err := g.Check(ctx)
	if err != nil {
		return err
	}
	code := exitError{code: exitFailed}
	if done, err := printData(s.Out, v, output); done {
		if err == nil && !v.Mended {
			return code
		}
		return failed(err)
	}
	if v.Mended {
		fmt.Fprintf(s.Out, "Mended after %v, with %s.\n", v.Took, plural(v.Hints, "hint"))
		return nil
	}
	fmt.Fprintf(s.Out, "Not mended after %v:\n", v.Took)
	for _, r := range v.Remains {
		fmt.Fprintf(s.Out, "- %s\n", r)
	}
	return code
}

func newCmdDrillStop(s Streams) *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End the running drill, mended or not, and clean up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onGround(cluster, func(g *drill.Ground) error {
				state, err := g.Stop(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "Drill %s is over.\n", state.Scene)
				return failed(err)
			})
		},
	}
	nameFlag(cmd, &cluster, defaultName, "name of the cluster")
	return cmd
}
