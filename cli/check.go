package cli

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/kube/dryrun"
	"github.com/berth-dev/berth/kube/manifest"
)

type checkOptions struct {
	against
	files   []string
	output  string
	failOn  string
	fix     bool
	dryRun  bool
	timeout time.Duration
	streams Streams
}

func newCmdCheck(s Streams) *cobra.Command {
	o := &checkOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "check -f FILE|FOLDER|-",
		Short: "Predict which manifests start, wait or never start, before they are submitted",
		Long: `Predict for each workload in the manifests whether it starts now, waits, or can never start: where and on
what terms, behind which workloads and until when, and what would change that. The command also reports mistakes
that Kubernetes reports to nobody, such as a whole GPU and a MIG slice in one pod (docs/check.md lists them).

The API server admits the objects in dry run, with its defaults and policies, and the engine plans them beside
all pending work of the cluster. With --from a bundle of berth evidence takes the place of the cluster, and with
--fleet a fleet that need not run. Nothing is changed in any of them.

After --timeout, start times and fixes are no longer computed, and the answer says so; verdicts always are.

Exit code: 0 fine, 1 something can never start (--fail-on waits: or waits), 2 wrong usage or a file that
cannot be read, 3 could not look: the cluster, or its nodes and pods, cannot be read.`,
		Example: `  berth check -f job.yaml
  helm template chart/ | berth check -f -
  berth check -f manifests/ --fleet research-128     # without any cluster
  berth check -f job.yaml --fix                      # write the verified fix into the file
  berth check -f manifests/ -o sarif > check.sarif`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.valid(); err != nil {
				return err
			}
			return checkRun(cmd.Context(), o)
		},
	}
	o.against.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE`, folder, or - for standard input; can be given several times")
	f.StringVarP(&o.output, "output", "o", "table", "table, wide, json, yaml, sarif or github")
	f.StringVar(&o.failOn, "fail-on", "never", "what makes the exit code 1: never (only what can never start) or waits")
	f.BoolVar(&o.fix, "fix", false, "write verified fixes into the files; of standard input, print the patched documents")
	f.BoolVar(&o.dryRun, "dry-run", true, "have the API server admit the objects in dry run; false: defaults come from a table")
	f.DurationVar(&o.timeout, "timeout", time.Second, "how long to work out start times and fixes; 0: as long as it takes")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(checkOutputs, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"never", "waits"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var checkOutputs = []string{"table", "wide", "json", "yaml", "sarif", "github"}

func (o *checkOptions) valid() error {
	switch {
	case len(o.files) == 0:
		return errNoManifests
	case !slices.Contains(checkOutputs, o.output):
		return fmt.Errorf("--output %q: use %s", o.output, strings.Join(checkOutputs, ", "))
	case o.failOn != "never" && o.failOn != "waits":
		return fmt.Errorf("--fail-on %q: use never or waits", o.failOn)
	case o.timeout < 0:
		return fmt.Errorf("--timeout %s: give a time above 0, or 0 for no limit", o.timeout)
	}
	return nil
}

func checkRun(ctx context.Context, o *checkOptions) error {
	began := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // it lives for a second: a third of its work was collecting garbage
	docs, err := manifest.Read(o.files, o.streams.In)
	if err != nil {
		return err
	}
	world, err := o.world(ctx, o.streams)
	if err != nil {
		return err
	}
	items, said, err := o.items(ctx, docs)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	world.Assumes = append(world.Assumes, said...)
	if o.timeout > 0 {
		world.Late = func() bool { return time.Since(began) > o.timeout }
	}
	report := submit.Check(world, o.defaultNamespace(), items)
	if o.fix {
		if err := o.write(docs, &report); err != nil {
			return failed(err)
		}
	}
	if err := o.print(&report); err != nil {
		return failed(err)
	}
	switch w := report.Worst(); {
	case w == submit.Never, w == submit.Waits && o.failOn == "waits":
		return exitError{code: exitFailed}
	case report.Unplanned():
		return exitError{code: exitUnknown} // the page says what could not be read
	}
	return nil
}

// items are the documents, admitted in dry run where there is an API server.
func (o *checkOptions) items(ctx context.Context, docs []manifest.Document) (items []submit.Item, said []string, err error) {
	items = make([]submit.Item, len(docs))
	for i := range docs {
		d := &docs[i]
		items[i] = submit.Item{File: d.File, Line: d.Line, Object: d.Object, LineOf: d.LineOf}
	}
	if !o.live() || !o.dryRun {
		return items, nil, nil
	}
	cfg, err := o.config()
	if err != nil {
		return nil, nil, err
	}
	return dryrun.Admit(ctx, cfg, o.defaultNamespace(), items)
}

// write puts the first verified fix of each workload that can never start, and the sure ones of findings, into the files.
func (o *checkOptions) write(docs []manifest.Document, r *submit.Report) error {
	changes := make(map[string][]manifest.Change)
	var files []string
	add := func(file string, line int, ops []edit.Op) {
		i := slices.IndexFunc(docs, func(d manifest.Document) bool { return d.File == file && d.Line == line })
		if i < 0 || len(ops) == 0 {
			return
		}
		if changes[file] == nil {
			files = append(files, file)
		}
		c := manifest.Change{Document: &docs[i]}
		for _, op := range ops {
			c.Ops = append(c.Ops, manifest.Op(op))
		}
		changes[file] = append(changes[file], c)
	}
	for i := range r.Workloads {
		w := &r.Workloads[i]
		j := slices.IndexFunc(w.Fixes, func(f submit.Fix) bool { return f.Patch != nil && f.Verified })
		if w.Verdict == submit.Never && j >= 0 {
			add(w.File, w.Line, w.Fixes[j].Patch)
		}
	}
	if len(files) == 0 {
		fmt.Fprintln(o.streams.Err, "nothing to fix in the files")
		return nil
	}
	for _, file := range files {
		if err := o.writeFile(file, changes[file]); err != nil {
			return err
		}
	}
	return nil
}

// writeFile changes the file; of standard input, the patched documents are printed.
func (o *checkOptions) writeFile(file string, changes []manifest.Change) error {
	if file == manifest.Stdin {
		for _, c := range changes {
			text, err := c.Document.Print(c.Ops)
			if err != nil {
				return err
			}
			fmt.Fprintf(o.streams.Err, "patched document, as standard input cannot be written:\n---\n%s", text)
		}
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	out, exact, err := manifest.Patched(data, changes)
	if err != nil {
		return err
	}
	if err := manifest.Write(file, out); err != nil {
		return err
	}
	how := "comments and layout are as they were"
	if !exact {
		how = "comments and order are as they were, and indentation may not be"
	}
	if !exact && strings.HasSuffix(file, ".json") {
		how = "its JSON was written anew"
	}
	fmt.Fprintf(o.streams.Err, "fixed %s: %s\n", file, how)
	return nil
}

func (o *checkOptions) print(r *submit.Report) error {
	switch o.output {
	case "json", "yaml":
		_, err := printData(o.streams.Out, r, o.output)
		return err
	case "sarif":
		_, err := printData(o.streams.Out, sarifOf(r), "json")
		return err
	case "github":
		return printGithub(o.streams.Out, r)
	}
	p := checkPage{columns: width(o.streams.Out), wide: o.output == "wide", kubectl: o.commands()}
	_, err := fmt.Fprint(o.streams.Out, o.head()+p.whole(r))
	return err
}

func (o *checkOptions) head() string {
	if o.live() {
		return o.asked()
	}
	return ""
}

// commands is what printed commands begin with; "" where there is no cluster that they could change.
func (o *checkOptions) commands() string {
	if o.fleet != "" {
		return ""
	}
	return o.kubectl()
}
