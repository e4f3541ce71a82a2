package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/kube/inspect"
)

func newCmdEvidenceShow(s Streams) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Check a bundle and print its report",
		Long: `Check every byte of a bundle that berth evidence wrote, and print what is in it: when and from what it was
taken, its hash, and its report. With -o json or yaml, its manifest.

Exit code: 0 it is as it was written, 2 wrong usage, 3 it is not, or cannot be read.`,
		Example: `  berth evidence show evidence.tar.zst`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return fmt.Errorf("-o %s: give table, json or yaml", output)
			}
			return evidenceShowRun(s, args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

func evidenceShowRun(s Streams, file, output string) error {
	b, err := inspect.Read(file)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if done, err := printData(s.Out, b.Manifest, output); done {
		return failed(err)
	}
	size := int64(0)
	if stat, err := os.Stat(file); err == nil {
		size = stat.Size()
	}
	m := b.Manifest
	fmt.Fprintf(s.Out, "%s  %s, format %d\n%s\n%s\nall %s are as they were written\n\n", file, bytesText(size), m.Format, m.Hash(), summary(m), plural(len(m.Files), "file"))
	_, err = s.Out.Write(b.Report)
	return failed(err)
}
