package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// mostRows bounds the rows of a certificate that are printed; -o json has them all.
const mostRows = 20

// printWorkload writes all there is to say about one workload.
func printWorkload(out io.Writer, w *answer.Workload, now time.Time) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s in namespace %s\n\n", w.Reference().Title(), w.Namespace)
	t := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	fmt.Fprintf(t, "  Workload\t%s\n", w.Name)
	fmt.Fprintf(t, "  State\t%s\n", w.State)
	fmt.Fprintf(t, "  Pods\t%s\n", podWords(w.Pods))
	fmt.Fprintf(t, "  GPUs\t%d\n", w.GPUs)
	fmt.Fprintf(t, "  Queue\t%s\n", dash(w.Queue))
	fmt.Fprintf(t, "  Priority\t%d\n", w.Priority)
	fmt.Fprintf(t, "  Age\t%s\n", ageOf(w.CreationTimestamp.Time, now))
	if p := w.Position; p != nil {
		fmt.Fprintf(t, "  In line\t%s\n", inLine(p, w.Queue))
		fmt.Fprintf(t, "  Ahead\t%s\n", ahead(p, w.Namespace))
	}
	printFuture(t, w, now)
	t.Flush()
	if w.Sentence != "" {
		fmt.Fprintf(&b, "\nWaits: %s\n", w.Cause)
		if meaning := why.Meaning(w.Cause); meaning != "" {
			fmt.Fprintf(&b, "  %s\n", meaning)
		}
		for _, part := range strings.Split(w.Sentence, "; ") {
			fmt.Fprintf(&b, "  - %s\n", part)
		}
	}
	for i := range w.Certificates {
		printCertificate(&b, &w.Certificates[i])
	}
	if w.Holders != nil {
		printHolders(&b, w.Holders)
	}
	_, err := b.WriteTo(out)
	return err
}

// podWords counts the pods of a workload.
func podWords(p answer.Pods) string {
	s := fmt.Sprintf("%d of %d %s, %d %s a node", p.Running, p.Size, agree(p.Running, "runs", "run"), p.Placed, agree(p.Placed, "has", "have"))
	if p.Min > 1 {
		s += fmt.Sprintf("; %d start together", p.Min)
	}
	return s
}

// printFuture writes what will become of the workload, as far as anybody knows.
func printFuture(out io.Writer, w *answer.Workload, now time.Time) {
	if w.Promise != nil {
		fmt.Fprintf(out, "  Promised\t%s\n", promised(w.Promise, now))
	}
	if w.ETA != nil {
		fmt.Fprintf(out, "  Expected\t%s\n", expected(w.ETA, now))
	}
	if w.Borrowed > 0 {
		fmt.Fprintf(out, "  Borrowed\t%s\n", borrowedWords(w))
	}
	if w.Evicting != nil {
		fmt.Fprintf(out, "  Ends\t%s\n", evictingWords(w.Evicting, w.Namespace, now))
	}
}

func inLine(p *answer.Position, queue string) string {
	s := fmt.Sprintf("%d of %d", p.Place, p.Of)
	if p.InQueue > 0 {
		s += fmt.Sprintf(", %d in queue %s", p.InQueue, queue)
	}
	return s
}

// ahead names who comes before; of others than the namespace's own, with theirs.
func ahead(p *answer.Position, namespace string) string {
	var words []string
	for _, r := range p.Ahead {
		words = append(words, titleFrom(r, namespace))
	}
	switch {
	case p.Others > 0 && len(words) == 0:
		words = append(words, plural(p.Others, "workload"))
	case p.Others > 0:
		words = append(words, plural(p.Others, "other"))
	case len(words) == 0:
		return "nobody"
	}
	return strings.Join(words, ", ")
}

// printCertificate writes the counts: nodes of a kind in a domain, how many pods fit there, and why no more.
func printCertificate(b *bytes.Buffer, c *why.Certificate) {
	fmt.Fprintf(b, "\nProof: where %s of %s could go\n", plural(c.Need, "pod"), strings.Join(why.Amounts(c.Request), " + "))
	t := tabwriter.NewWriter(b, 0, 8, 3, ' ', 0)
	if c.Level != "" {
		fmt.Fprintf(t, "  %s\t", strings.ToUpper(c.Level))
	}
	fmt.Fprint(t, "  NODES\tFIT\tFOR EXAMPLE\tWHY NOT MORE\n")
	rows, more := 0, 0
	for _, d := range c.Domains {
		for _, r := range d.Rows {
			if rows++; rows > mostRows {
				more += r.Nodes
				continue
			}
			if c.Level != "" {
				fmt.Fprintf(t, "  %s\t", dash(d.Name))
			}
			fmt.Fprintf(t, "  %d\t%d\t%s\t%s\n", r.Nodes, r.Fits, dash(r.Example), dash(obstacles(&r)))
		}
	}
	t.Flush()
	if more > 0 {
		fmt.Fprintf(b, "  and %s more; -o json has all\n", plural(more, "node"))
	}
}

func obstacles(r *why.Row) string {
	var words []string
	for _, s := range r.Short {
		words = append(words, s.Text())
	}
	for _, c := range r.Removed {
		words = append(words, c.Text())
	}
	return strings.Join(words, "; ")
}

func printHolders(b *bytes.Buffer, h *answer.Holders) {
	on := "on the nodes that it could use"
	if h.Queue != "" {
		on = "of queue " + h.Queue
	}
	fmt.Fprintf(b, "\nWho has %s %s\n", h.Resource, on)
	t := tabwriter.NewWriter(b, 0, 8, 3, ' ', 0)
	fmt.Fprintf(t, "  WORKLOAD\tNAMESPACE\tHAS\n")
	for _, i := range h.Items {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", i.Title(), i.Namespace, why.Quantity(h.Resource, i.Amount))
	}
	if o := h.Others; o.Workloads > 0 {
		fmt.Fprintf(t, "  %s\t\t%s\n", plural(o.Workloads, "other"), why.Quantity(h.Resource, o.Amount))
	}
	t.Flush()
}
