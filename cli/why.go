package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

type whyOptions struct {
	reading
	space   string
	all     bool
	output  string
	target  facts.Ref // without a name: everything that waits
	streams Streams
}

func newCmdWhy(s Streams) *cobra.Command {
	o := &whyOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "why [KIND/NAME | KIND NAME | NAME]",
		Short: "Explain why work is pending: layer, cause, owner, and a fix that was tried",
		Long: `Explain why work is pending: which of the four layers blocks it, what the cause is, who has to act, and what
would fix it. Every fix was tried on a copy of what was read before it is printed: with it the checks find
no further obstacle, and the engine finds a place.

The command works on any cluster, under any scheduler, and reads with your own rights: what you may not read
is listed as not seen. Ask about a pod or anything that makes pods; a name alone is looked for among Jobs,
Deployments, StatefulSets, Pods and the rest, in that order. Without a name, all pending work is
listed, with what runs and is held up: not ready, crashing, on a lost node, or not going. Every cause is explained in docs/reasons.md.

Exit code: 0 nothing blocks it, 1 something does, 2 wrong usage, 3 could not look.`,
		Example: `  berth why                        # all that waits in the current namespace
  berth why -A
  berth why job/train -n team-a
  berth why train -o json
  berth why -A --from evidence.tar.zst`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			if err := o.parse(args); err != nil {
				return err
			}
			return whyRun(cmd.Context(), o)
		},
	}
	o.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.space, "namespace", "n", "", "namespace (default: the kubeconfig's)")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "all namespaces")
	f.StringVarP(&o.output, "output", "o", "table", "table, wide, json, yaml or name")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	cmd.ValidArgsFunction = o.completeWorkloads(&o.space, o.askable)
	return cmd
}

// parse reads what is asked about.
func (o *whyOptions) parse(args []string) error {
	if len(args) == 0 {
		return nil
	}
	kind, name, ok := strings.Cut(args[0], "/")
	switch {
	case len(args) == 2 && ok:
		return fmt.Errorf("%q names it whole: give KIND/NAME or KIND NAME; -n gives the namespace", args[0])
	case len(args) == 2:
		name = args[1]
	case !ok:
		kind, name = "", args[0]
	}
	if name == "" || ok && kind == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is neither NAME nor KIND/NAME", strings.Join(args, " "))
	}
	if o.all {
		return errors.New("-A lists everything that waits: give a name or -A, not both")
	}
	o.target.Name = name
	if kind == "" {
		return nil
	}
	var err error
	o.target.Kind, err = facts.ParseKind(kind)
	return err
}

func whyRun(ctx context.Context, o *whyOptions) error {
	if o.space == "" && !o.all {
		o.space = o.namespace()
	}
	facts, err := o.facts(ctx, o.streams, o.asks())
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	a, err := o.asker()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	d := diagnoser(ctx, a, facts, o.space, o.asks())
	if o.target.Name == "" {
		return o.list(d, facts)
	}
	o.target.Namespace = o.space
	answer, err := d.Why(o.target)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	o.remember(&answer, facts)
	address(&answer, o.kubectl())
	if err := o.printOne(&answer, facts.At); err != nil {
		return failed(err)
	}
	if blocks(&answer) {
		return exitError{code: exitFailed}
	}
	return nil
}

// asks is whose logs are worth reading: those of what is asked about.
func (o *whyOptions) asks() facts.Ref {
	r := o.target
	r.Namespace = o.space
	return r
}

// blocks says whether somebody, or something, keeps the target from going on.
func blocks(d *diagnose.Diagnosis) bool {
	return d.Layer != check.None || d.Cause == diagnose.Unknown
}

// blind is the error where not one pod could be looked at: nobody knows then whether anything waits.
func (o *whyOptions) blind(facts *facts.Facts) error {
	for _, u := range facts.Unseen {
		switch {
		case u.Resource != "pods" || o.space == "" && u.Except != "" || o.space != "" && facts.Sees("pods", o.space):
		case o.space == "":
			return fmt.Errorf("pods cannot be read in all namespaces (%s): give -n NAMESPACE", u.Reason)
		default:
			return fmt.Errorf("pods in namespace %s cannot be read (%s): ask for the right to list them, or give -n NAMESPACE", o.space, u.Reason)
		}
	}
	return nil
}

// calm says that nothing waits, as far as could be seen.
func (o *whyOptions) calm(unseen []facts.Unseen) string {
	text := "Nothing waits"
	if o.space != "" {
		text += " in namespace " + o.space
	}
	if len(unseen) > 0 {
		text += " that can be seen; not seen: " + inShort(unseen)
	}
	return text + "."
}

// list diagnoses all that waits.
func (o *whyOptions) list(d *diagnose.Diagnoser, facts *facts.Facts) error {
	if err := o.blind(facts); err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	list := diagnose.DiagnosisList{APIVersion: diagnose.APIVersion, Kind: diagnose.ListKind, Items: []diagnose.Diagnosis{}}
	list.Unseen = facts.Unseen
	stuck, start, waiting, kubectl := false, time.Now(), d.Waiting(o.space), o.kubectl()
	for i, r := range waiting {
		if isTerminal(o.streams.Err) && time.Since(start) > quietFor {
			fmt.Fprintf(o.streams.Err, eraseLine+"looking at %d of %d", i+1, len(waiting))
		}
		answer, err := d.Why(r.Ref)
		if err != nil {
			return exitError{code: exitUnknown, err: err}
		}
		if !r.Lists(&answer) {
			continue
		}
		stuck = stuck || blocks(&answer)
		answer.Unseen = nil // the same for all
		address(&answer, kubectl)
		list.Items = append(list.Items, answer)
	}
	if isTerminal(o.streams.Err) && time.Since(start) > quietFor {
		fmt.Fprint(o.streams.Err, eraseLine)
	}
	if err := o.printList(list, facts.At); err != nil {
		return failed(err)
	}
	if stuck {
		return exitError{code: exitFailed}
	}
	return nil
}

func (o *whyOptions) printOne(d *diagnose.Diagnosis, at time.Time) error {
	if o.output == "name" {
		_, err := fmt.Fprintln(o.streams.Out, d.Target)
		return err
	}
	if done, err := printData(o.streams.Out, d, o.output); done {
		return err
	}
	p := whyPage{columns: width(o.streams.Out), colour: isTerminal(o.streams.Out), wide: o.output == "wide", now: at}
	_, err := fmt.Fprint(o.streams.Out, o.asked()+p.one(d))
	return err
}

func (o *whyOptions) printList(list diagnose.DiagnosisList, at time.Time) error {
	if o.output == "name" {
		for i := range list.Items {
			fmt.Fprintln(o.streams.Out, list.Items[i].Target)
		}
		return nil
	}
	if done, err := printData(o.streams.Out, list, o.output); done {
		return err
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(o.streams.Err, o.asked()+o.calm(list.Unseen))
		return nil
	}
	p := whyPage{columns: width(o.streams.Out), wide: o.output == "wide", all: o.all, now: at}
	if p.wide {
		p.columns = 0
	}
	_, err := fmt.Fprint(o.streams.Out, o.asked()+p.table(list))
	return err
}
