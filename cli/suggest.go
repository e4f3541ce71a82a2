package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArgs is for commands that take no arguments. What is left over is most often the mistyped name of a command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		hint = "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// flagError adds the flags that an unknown one may have been meant to be.
func flagError(cmd *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	// cobra measures how near two commands are; flags are near in the same way
	flags := &cobra.Command{SuggestionsMinimumDistance: suggestDistance}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Hidden: f.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	if names := flags.SuggestionsFor(name); len(names) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(names, " or --"))
	}
	return err
}

// suggestDistance is how many letters may be wrong in a word.
const suggestDistance = 2
