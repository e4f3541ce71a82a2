package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newCmdMan writes the manual: a page for each command, in roff, without the day on which it was made.
func newCmdMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write manual pages into a folder", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return failed(writeManual(cmd.Root(), args[0]))
		},
	}
}

func writeManual(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || cmd.IsAdditionalHelpTopicCommand() {
		return nil
	}
	f, err := os.Create(filepath.Join(dir, manualName(cmd)+".1"))
	if err != nil {
		return err
	}
	writePage(f, cmd)
	if err := f.Close(); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := writeManual(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func manualName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// writePage writes one command's page. An error of w shows when it is closed.
func writePage(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, ".TH %s 1 \"\" \"berth %s\" \"Berth\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(manualName(cmd))), Version, roff(manualName(cmd)), roff(cmd.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(w, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n"))
	cmd.InitDefaultHelpFlag()
	flags := false
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !flags {
			fmt.Fprint(w, ".SH OPTIONS\n")
			flags = true
		}
		name, usage := pflag.UnquoteUsage(f)
		line := "--" + f.Name
		if f.Shorthand != "" {
			line = "-" + f.Shorthand + ", " + line
		}
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(line+" "+name)), roff(usage))
	})
	if cmd.Example != "" {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	var also []string
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && !sub.IsAdditionalHelpTopicCommand() {
			also = append(also, manualName(sub)+"(1)")
		}
	}
	if cmd.HasParent() {
		also = append([]string{manualName(cmd.Parent()) + "(1)"}, also...)
	}
	if len(also) > 0 {
		fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", roff(strings.Join(also, ", ")))
	}
}

// roff is text that means nothing to a formatter: no escapes, and no line that it takes for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
