package cli

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/metrics"
)

// capacityView is the account as it is printed; with -o json, as it is.
type capacityView struct {
	At    time.Time     `json:"at"`
	By    string        `json:"by"`
	Total capacityRow   `json:"total"`
	Rows  []capacityRow `json:"rows"`
	// Lost is every cause for which GPUs get no further, in the order of the steps, and the dearest first within one.
	Lost         []capacityLoss  `json:"lost"`
	Reservations []join.Reserved `json:"reservations"`
	Unseen       []facts.Unseen  `json:"unseen,omitempty"`

	sums []capacity.Sum
}

// capacityRow is a row of the account. Money is in millionths.
type capacityRow struct {
	Name string `json:"name"`
	// Reached is how many GPUs reached each step, and Lost how many of them no further: these add up to what is paid.
	Reached map[string]int64 `json:"reached"`
	Lost    map[string]int64 `json:"lost"`
	// PerHour is what all of them cost, and LostPerHour what those cost that got no further, as far as prices are known.
	PerHour     []capacity.Amount            `json:"perHour"`
	LostPerHour map[string][]capacity.Amount `json:"lostPerHour"`
	Unpriced    int64                        `json:"unpricedGPUs"`
}

// capacityLoss is what GPUs are lost to.
type capacityLoss struct {
	capacity.Leak
	Since   time.Time `json:"since,omitzero"` // of the first of them
	Said    []string  `json:"said,omitempty"` // a sentence for each machine, at most fewSaid
	Fix     string    `json:"fix"`
	Command string    `json:"command,omitempty"`
	Ask     []string  `json:"ask,omitempty"` // who can mend it, each once, at most fewSaid
}

// fewSaid bounds the sentences about one cause.
const fewSaid = 5

// mostLeaks is how many leaks the page has in detail.
const mostLeaks = 3

func newCapacityView(l *capacity.Ledger, r *join.Report, f *facts.Facts, o *capacityOptions) *capacityView {
	sums, by := l.Sums(), capacityBy[o.by]
	v := &capacityView{sums: sums, At: r.At, By: o.by, Reservations: append([]join.Reserved{}, r.Reservations...), Rows: []capacityRow{}, Lost: []capacityLoss{}}
	for _, row := range capacity.Rows(sums, by) {
		v.Rows = append(v.Rows, shownRow(&row, unnamed[o.by]))
	}
	v.Total = shownRow(&capacity.Row{}, "total")
	for _, row := range capacity.Rows(sums, func(*capacity.Sum) string { return "total" }) {
		v.Total = shownRow(&row, "")
	}
	kubectl := o.kubectl()
	all := l.GPUs()
	for _, leak := range capacity.Leaks(sums) {
		v.Lost = append(v.Lost, lossOf(leak, all, r, kubectl))
	}
	for _, u := range f.Unseen {
		if slices.Contains([]string{"nodes", "pods", "pools.berth.dev", "reservations.berth.dev", "nodeclaims.karpenter.sh", "resourceslices.resource.k8s.io"}, u.Resource) {
			v.Unseen = append(v.Unseen, u)
		}
	}
	return v
}

// unnamed is what a row is called whose GPUs have no name of the kind.
var unnamed = map[string]string{"reservation": "(no reservation)", "pool": "(no pool)", "zone": "(no zone)", "cause": "(busy)"}

func shownRow(r *capacity.Row, without string) capacityRow {
	out := capacityRow{Name: cmp.Or(r.Name, without), Reached: map[string]int64{}, Lost: map[string]int64{}, PerHour: append([]capacity.Amount{}, r.PerHour...), LostPerHour: map[string][]capacity.Amount{}, Unpriced: r.Unpriced}
	for _, s := range capacity.Stages() {
		out.Reached[s.String()], out.Lost[s.String()] = r.GPUs[s], r.Lost[s]
		if len(r.LostPerHour[s]) > 0 {
			out.LostPerHour[s.String()] = r.LostPerHour[s]
		}
	}
	return out
}

func lossOf(leak capacity.Leak, all []capacity.GPU, r *join.Report, kubectl string) capacityLoss {
	out := capacityLoss{Leak: leak, Fix: strings.TrimSuffix(join.Remedy(leak.Cause), ".")}
	seen := make(map[string]bool)
	for _, g := range all {
		if g.Stage != leak.Stage || g.Cause != leak.Cause || g.Owner != leak.Owner {
			continue
		}
		if out.Since.IsZero() || g.Since.Before(out.Since) {
			out.Since = g.Since
		}
		said := r.Said[g.Unit]
		if said.Ask != "" && len(out.Ask) < fewSaid && !slices.Contains(out.Ask, said.Ask) {
			out.Ask = append(out.Ask, said.Ask)
		}
		if said.Message == "" || seen[said.Message] {
			continue
		}
		seen[said.Message] = true
		if len(out.Said) < fewSaid {
			out.Said = append(out.Said, said.Message)
		}
		if len(seen) == 1 {
			out.Fix, out.Command = cmp.Or(said.Fix, out.Fix), addressed(said.Command, kubectl)
		}
	}
	return out
}

// verdict is the exit code: without the nodes nothing can be said.
func (v *capacityView) verdict() error {
	if slices.ContainsFunc(v.Unseen, func(u facts.Unseen) bool { return u.Resource == "nodes" }) {
		return exitError{code: exitUnknown}
	}
	return nil
}

func (v *capacityView) print(o *capacityOptions) error {
	if o.output == "csv" {
		return v.csv(o)
	}
	if o.output == "prometheus" {
		text, err := metrics.Seam(v.sums)
		if err == nil {
			_, err = fmt.Fprint(o.streams.Out, text)
		}
		return err
	}
	if done, err := printData(o.streams.Out, v, o.output); done {
		return err
	}
	columns := width(o.streams.Out)
	if o.output == "wide" {
		columns = 0
	}
	_, err := fmt.Fprint(o.streams.Out, o.asked()+v.text(columns, o.output == "wide"))
	return err
}

func (v *capacityView) csv(o *capacityOptions) error {
	w := csv.NewWriter(o.streams.Out)
	head := []string{v.By}
	for _, s := range capacity.Stages() {
		head = append(head, s.String())
	}
	for _, s := range capacity.Stages() {
		head = append(head, "lost_"+s.String())
	}
	for _, s := range capacity.Stages() {
		head = append(head, "lost_"+s.String()+"_per_hour")
	}
	if err := w.Write(append(head, "per_hour", "unpriced_gpus")); err != nil {
		return err
	}
	for _, r := range append(slices.Clone(v.Rows), v.Total) {
		line := []string{formula(r.Name)}
		for _, s := range capacity.Stages() {
			line = append(line, strconv.FormatInt(r.Reached[s.String()], 10))
		}
		for _, s := range capacity.Stages() {
			line = append(line, strconv.FormatInt(r.Lost[s.String()], 10))
		}
		for _, s := range capacity.Stages() {
			line = append(line, exactly(r.LostPerHour[s.String()]))
		}
		if err := w.Write(append(line, exactly(r.PerHour), strconv.FormatInt(r.Unpriced, 10))); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// formula keeps a spreadsheet from taking a name for a formula.
func formula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// exactly is amounts for programs: "63.296 USD"; "": none is known.
func exactly(all []capacity.Amount) string {
	var out []string
	for _, a := range all {
		out = append(out, a.Micro.Text()+" "+a.Currency)
	}
	return strings.Join(out, " + ")
}

// money is amounts for people, in hundredths; GPUs without a price are said.
func money(all []capacity.Amount, gpus, unpriced int64) string {
	var out []string
	for _, a := range all {
		out = append(out, a.Micro.Cents()+" "+a.Currency)
	}
	switch {
	case gpus == 0:
		return "-"
	case unpriced == gpus || len(out) == 0:
		return "unknown"
	case unpriced > 0:
		out = append(out, fmt.Sprintf("%d GPUs unknown", unpriced))
	}
	return strings.Join(out, " + ")
}

func (v *capacityView) text(columns int, wide bool) string {
	var b strings.Builder
	if v.Total.Reached["paid"] == 0 && len(v.Reservations) == 0 {
		b.WriteString("No GPU is paid for: no Reservation, and no node with GPUs.\n")
	} else {
		v.rows(&b, columns)
		v.steps(&b, columns)
	}
	v.notPaid(&b)
	v.leaks(&b, wide)
	if len(v.Unseen) > 0 {
		fmt.Fprintf(&b, "\nNot seen: %s.\n", inShort(v.Unseen))
	}
	return b.String()
}

// rows has a bar and the numbers of each row.
func (v *capacityView) rows(b *strings.Builder, columns int) {
	t := table{columns: []column{{head: strings.ToUpper(v.By)}, {head: "PAID TO BUSY", spare: 1}}}
	for _, s := range capacity.Stages() {
		t.columns = append(t.columns, column{head: strings.ToUpper(s.String())})
	}
	t.columns = append(t.columns, column{head: "PER HOUR"}, column{head: "LOST PER HOUR"})
	rows := slices.Clone(v.Rows)
	if len(rows) != 1 {
		rows = append(rows, v.Total)
	}
	for _, r := range rows {
		cells := []string{r.Name, bar(&r)}
		for _, s := range capacity.Stages() {
			cells = append(cells, v.reached(&r, s))
		}
		lost, gone := r.lost()
		t.add(append(cells, money(r.PerHour, r.Reached["paid"], r.Unpriced), money(lost, gone, gone*btoi(len(lost) == 0)))...)
	}
	t.write(b, columns)
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// reached is the number; a question mark where nobody measured.
func (v *capacityView) reached(r *capacityRow, s capacity.Stage) string {
	if s == capacity.Busy && r.Reached[s.String()] == 0 && r.Reached["allocated"] > 0 && !v.measured() {
		return "?"
	}
	return strconv.FormatInt(r.Reached[s.String()], 10)
}

// measured says whether anybody measured whether GPUs are busy.
func (v *capacityView) measured() bool {
	return v.Total.Reached["busy"] > 0 || slices.ContainsFunc(v.Lost, func(l capacityLoss) bool { return l.Cause == capacity.IdleAllocation })
}

// lost is what GPUs cost an hour that no work can have, and how many they are: those that did not come to be schedulable.
func (r *capacityRow) lost() (out []capacity.Amount, gpus int64) {
	for _, s := range capacity.Stages()[:capacity.Schedulable] {
		gpus += r.Lost[s.String()]
		for _, a := range r.LostPerHour[s.String()] {
			out = capacity.Plus(out, a.Currency, a.Micro)
		}
	}
	return out, gpus
}

// barWidth is how many characters all paid GPUs are.
const barWidth = 20

// bar shows the parts of what is paid: # busy, = allocated, - schedulable, . lost before.
func bar(r *capacityRow) string {
	paid := r.Reached["paid"]
	if paid == 0 {
		return ""
	}
	at := func(s string) int { return int((r.Reached[s]*barWidth + paid/2) / paid) }
	busy, allocated, schedulable := at("busy"), at("allocated"), at("schedulable")
	return strings.Repeat("#", busy) + strings.Repeat("=", allocated-busy) + strings.Repeat("-", schedulable-allocated) + strings.Repeat(".", barWidth-schedulable)
}

// steps is what is lost at each step, to what, and whose that is.
func (v *capacityView) steps(b *strings.Builder, columns int) {
	if len(v.Lost) == 0 {
		return
	}
	t := table{columns: []column{{head: "NOT"}, {head: "GPUS"}, {head: "PER HOUR"}, {head: "CAUSE"}, {head: "OWNER"}, {head: "FOR", spare: 1}}}
	lost := slices.Clone(v.Lost)
	slices.SortStableFunc(lost, func(a, b capacityLoss) int { return cmp.Compare(a.Stage, b.Stage) })
	for _, l := range lost {
		t.add((l.Stage + 1).String(), strconv.FormatInt(l.GPUs, 10), money(l.PerHour, l.GPUs, l.Unpriced), l.Cause, l.Owner, lasting(v.At, l.Since))
	}
	b.WriteByte('\n')
	t.write(b, columns)
}

func lasting(now, at time.Time) string {
	if at.IsZero() || at.After(now) {
		return "-"
	}
	d := now.Sub(at)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// notPaid are the reservations of which nothing is to be had now.
func (v *capacityView) notPaid(b *strings.Builder) {
	begun := false
	for _, r := range v.Reservations {
		if r.Paid || r.Message == "" {
			continue
		}
		if !begun {
			b.WriteString("\nNot paid for now\n")
			begun = true
		}
		fmt.Fprintf(b, "  %s: %s, %d GPUs (%s, owner: %s)\n", cell(r.Name), cell(r.Message), r.GPUs, r.Cause, r.Owner)
	}
}

// leaks are the largest, with what to do; wide has all.
func (v *capacityView) leaks(b *strings.Builder, wide bool) {
	var lost []capacityLoss
	for _, l := range v.Lost {
		if l.Stage < capacity.Schedulable || l.Cause == capacity.IdleAllocation {
			lost = append(lost, l)
		}
	}
	if len(lost) == 0 {
		return
	}
	shown := lost
	if !wide {
		shown = lost[:min(len(lost), mostLeaks)]
	}
	fmt.Fprintf(b, "\nLargest leaks\n")
	for i, l := range shown {
		fmt.Fprintf(b, "  %d. %s: %d GPUs, %s an hour\n", i+1, l.Cause, l.GPUs, money(l.PerHour, l.GPUs, l.Unpriced))
		for _, s := range l.Said {
			fmt.Fprintf(b, "     - %s\n", cell(s))
		}
		for _, who := range l.owners() {
			fmt.Fprintf(b, "     Owner: %s.\n", cell(who))
		}
		if l.Fix != "" {
			fmt.Fprintf(b, "     Fix: %s.\n", cell(strings.ToUpper(l.Fix[:1])+l.Fix[1:]))
		}
		if l.Command != "" {
			fmt.Fprintf(b, "     $ %s\n", cell(l.Command))
		}
	}
	if more := len(lost) - len(shown); more > 0 {
		fmt.Fprintf(b, "  and %d more (-o wide)\n", more)
	}
}

// owners are whose the loss is: who the objects say can mend it, with the kind of team that they are; the kind alone where nothing tells.
func (l *capacityLoss) owners() []string {
	if len(l.Ask) == 0 {
		return []string{l.Owner}
	}
	out := make([]string, len(l.Ask))
	for i, who := range l.Ask {
		out[i] = fmt.Sprintf("%s (%s)", who, l.Owner)
	}
	return out
}

// printChange prints everything at first, then the causes whose GPUs changed. Data is printed whole whenever something changed.
func (v *capacityView) printChange(was *capacityView, o *capacityOptions) error {
	if was == nil {
		return v.print(o)
	}
	if reflect.DeepEqual(was.Rows, v.Rows) && reflect.DeepEqual(gpuCounts(was), gpuCounts(v)) {
		return nil
	}
	if o.output != "table" && o.output != "wide" {
		if o.output == "yaml" {
			fmt.Fprintln(o.streams.Out, "---")
		}
		return v.print(o)
	}
	before, now := gpuCounts(was), gpuCounts(v)
	var causes []string
	for cause := range before {
		causes = append(causes, cause)
	}
	for cause := range now {
		causes = append(causes, cause)
	}
	slices.Sort(causes)
	for _, cause := range slices.Compact(causes) {
		if before[cause] != now[cause] {
			if _, err := fmt.Fprintf(o.streams.Out, "%s %s: %d GPUs, was %d\n", v.At.Local().Format(time.TimeOnly), cell(cause), now[cause], before[cause]); err != nil {
				return err
			}
		}
	}
	return nil
}

// gpuCounts are the GPUs by what they are lost to, and those at the end of the chain.
func gpuCounts(v *capacityView) map[string]int64 {
	out := make(map[string]int64)
	for _, s := range []capacity.Stage{capacity.Paid, capacity.Schedulable, capacity.Allocated, capacity.Busy} {
		out[s.String()] = v.Total.Reached[s.String()]
	}
	for _, l := range v.Lost {
		out[l.Cause] += l.GPUs
	}
	return out
}
