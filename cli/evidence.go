package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/inspect"
)

type evidenceOptions struct {
	reading // of a cluster: the flags of a connection alone
	space   string
	all     bool
	redact  bool
	file    string
	streams Streams
}

func newCmdEvidence(s Streams) *cobra.Command {
	o := &evidenceOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "evidence",
		Short: "Write everything a cluster shows into one file, to diagnose it elsewhere and later",
		Long: `Write everything that diagnosis reads of a cluster into one file: objects, the ends of the logs of pending work,
the scheduler's answers, and a short report. The command reads with your own rights and changes nothing. Every
command that takes --from gives the same answer from the file, on another machine, months later.

Secrets are not read. Of environments, command lines, annotations and texts the file keeps only what diagnosis
needs; the rest is masked. With --redact, names are replaced too, each by the same name everywhere, and the file
has no word that is not one of Kubernetes' own. The printed hash identifies the bundle: berth evidence show
prints it again, after checking every byte.

Exit code: 0 written, 1 could not write, 2 wrong usage, 3 could not look.`,
		Example: `  berth evidence
  berth evidence --redact -o for-the-vendor.tar.zst
  berth evidence show for-the-vendor.tar.zst
  berth why -A --from for-the-vendor.tar.zst`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return evidenceRun(cmd.Context(), o) },
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "file to write (default: berth-evidence-CLUSTER-TIME.tar.zst)")
	f.StringVarP(&o.space, "namespace", "n", "", "report on what waits in this namespace alone (default: all)")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "report on what waits in all namespaces")
	f.BoolVar(&o.redact, "redact", false, "replace all names, and keep no word that is not Kubernetes' own")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	cmd.AddCommand(newCmdEvidenceShow(s))
	return cmd
}

// most is how many that wait are diagnosed for the report, and have their logs read.
const mostReported = 500

func evidenceRun(ctx context.Context, o *evidenceOptions) error {
	if err := vacant(o.file); err != nil { // before anything is read
		return failed(err)
	}
	current := o.space
	if current == "" {
		current = o.namespace()
	}
	p := newProgress(o.streams.Err)
	defer p.stop()
	p.doing("reading the cluster")
	facts, err := o.gather(ctx, Streams{Err: io.Discard}, current, o.waiting)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	p.did(fmt.Sprintf("read %s and %s", plural(len(facts.Nodes), "node"), plural(len(facts.Pods), "pod")))
	a, err := o.asker()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	p.doing("asking the scheduler")
	from, err := o.choose()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	b := inspect.BundleOptions{Berth: Version, Cluster: from.name, Kubectl: from.portable, Namespace: current, Answers: a.answers(ctx, current), Report: o.report}
	if o.redact {
		b.Redact = inspect.NewRedaction(facts, nil)
		b.Cluster = ""
	}
	if o.file == "" {
		o.file = evidenceName(b.Cluster, facts.At)
	}
	p.doing("diagnosing and writing")
	m, size, err := writeBundle(o.file, facts, b)
	if err != nil {
		return failed(err)
	}
	p.did("wrote the bundle")
	p.stop()
	return failed(o.tell(m, size))
}

// waiting are the pods of what waits.
func (o *evidenceOptions) waiting(f *facts.Facts) (pods []*corev1.Pod) {
	for _, r := range diagnose.New(f, nil).Waiting(o.space) {
		pods = append(pods, f.PodsOf(r.Ref)...)
	}
	return pods
}

// report diagnoses what waits, on the facts as they are in the bundle.
func (o *evidenceOptions) report(b *inspect.Bundle) ([]byte, error) {
	space := o.space
	if space != "" {
		space = b.Manifest.Namespace // as it is called in there
	}
	d := diagnoser(context.Background(), asker{kept: b}, b.Facts, space, facts.Ref{})
	var found []diagnose.Diagnosis
	waiting := d.Waiting(space)
	more := 0 // that wait, beyond what is diagnosed
	for _, r := range waiting {
		if len(found) == mostReported {
			if !r.Doubtful {
				more++
			}
			continue
		}
		answer, err := d.Why(r.Ref)
		if err != nil {
			return nil, err
		}
		if !r.Lists(&answer) {
			continue
		}
		address(&answer, kubectlOf(b))
		found = append(found, answer)
	}
	text := inspect.Report(b, found)
	if more > 0 {
		text = fmt.Appendf(text, "- %d more %s and %s not diagnosed for this report; `berth why -A --from` this bundle does.\n", more, agree(more, "workload waits", "workloads wait"), agree(more, "was", "were"))
	}
	return text, nil
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// evidenceName is the file of a bundle that nobody named.
func evidenceName(cluster string, at time.Time) string {
	name := strings.Trim(unfit.ReplaceAllString(cluster, "-"), "-.")
	if name == "" {
		name = "cluster"
	}
	return fmt.Sprintf("berth-evidence-%s-%s.tar.zst", name, at.UTC().Format("20060102T150405Z"))
}

// vacant says why no bundle can be written there: something has the name already, or there is no such folder.
func vacant(file string) error {
	if file == "" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s exists already: remove it, or give another name with -o", file)
	}
	if dir := filepath.Dir(file); !isDir(dir) {
		return fmt.Errorf("%s: there is no folder %s: make it, or give another name with -o", file, dir)
	}
	return nil
}

func isDir(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.IsDir()
}

// writeBundle writes the file whole or not at all, and over none that is there.
func writeBundle(file string, facts *facts.Facts, b inspect.BundleOptions) (*inspect.Manifest, int64, error) {
	if _, err := os.Lstat(file); err == nil {
		return nil, 0, fmt.Errorf("%s exists already: remove it, or give another name with -o", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".berth-evidence-*")
	if err != nil {
		return nil, 0, fmt.Errorf("write %s: %w", file, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	m, err := inspect.Write(f, facts, b)
	if err != nil {
		return nil, 0, err
	}
	stat, err := f.Stat()
	if err == nil {
		err = errors.Join(f.Sync(), f.Close()) // a name must not outlive a crash that its content does not
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("write %s: %w", file, err)
	}
	return m, stat.Size(), nil
}

// tell prints what was written.
func (o *evidenceOptions) tell(m *inspect.Manifest, size int64) error {
	out := o.streams.Out
	fmt.Fprintf(out, "%s%s  %s\n%s\n", o.asked(), o.file, bytesText(size), m.Hash())
	fmt.Fprintln(out, summary(m))
	for _, u := range m.Unseen {
		fmt.Fprintf(out, "not seen: %s\n", u)
	}
	_, err := fmt.Fprintf(out, "\nLook at it with:  berth evidence show %s\n", o.file)
	return err
}

// summary counts what is in a bundle.
func summary(m *inspect.Manifest) string {
	objects := 0
	for _, n := range m.Counts {
		objects += n
	}
	s := fmt.Sprintf("%s of %s: %s, %s", plural(objects, "object"), plural(len(m.Counts), "kind"), plural(m.Counts["nodes"], "node"), plural(m.Counts["pods"], "pod"))
	if m.Redacted {
		s += "; names redacted"
	}
	return s
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
