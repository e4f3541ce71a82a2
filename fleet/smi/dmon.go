package smi

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// metric is one column of dmon, right-aligned in seven characters.
type metric struct {
	name, unit string
	value      func(view) string
}

// metrics are the groups of -s, in the order in which they are printed whatever order asks for
// them.
var metrics = []struct {
	group byte
	cols  []metric
}{
	{'p', []metric{
		{"pwr", "W", func(v view) string { return fmt.Sprint(v.PowerWatts) }},
		{"gtemp", "C", func(v view) string { return fmt.Sprint(v.TempC) }},
		{"mtemp", "C", func(v view) string { return dash(v.memTemp()) }},
	}},
	{'u', []metric{
		{"sm", "%", func(v view) string { return fmt.Sprint(v.UtilPercent) }},
		{"mem", "%", func(v view) string { return fmt.Sprint(v.MemUtilPercent) }},
		{"enc", "%", zero}, {"dec", "%", zero}, {"jpg", "%", zero}, {"ofa", "%", zero},
	}},
	{'c', []metric{
		{"mclk", "MHz", func(v view) string { return fmt.Sprint(v.MemClockMHz()) }},
		{"pclk", "MHz", func(v view) string { return fmt.Sprint(v.SMClockMHz()) }},
	}},
	{'v', []metric{{"pviol", "%", zero}, {"tviol", "bool", zero}}},
	{'m', []metric{
		{"fb", "MB", func(v view) string { return fmt.Sprint(v.MemUsedMiB) }},
		{"bar1", "MB", func(v view) string { return fmt.Sprint(v.bar1UsedMiB()) }},
		{"ccpm", "MB", zero},
	}},
	{'e', []metric{
		{"sbecc", "errs", func(v view) string { return dash(v.eccErrors()) }},
		{"dbecc", "errs", func(v view) string { return dash(v.uncorrected()) }},
		{"pci", "errs", zero},
	}},
	{'t', []metric{
		{"rxpci", "MB/s", func(v view) string { return megabytes(v.Model.Pipes(v.Activity).PCIeReceived) }},
		{"txpci", "MB/s", func(v view) string { return megabytes(v.Model.Pipes(v.Activity).PCIeSent) }},
	}},
}

func zero(view) string { return "0" }

func megabytes(n float64) string { return strconv.Itoa(int(n / 1e6)) }

// dash is how the scrolling commands write what a board cannot tell.
func dash(s string) string {
	if s == na {
		return "-"
	}
	return s
}

var dmonOptions = spelling{
	"-i": {"-i", true}, "--id": {"-i", true},
	"-d": {"-d", true}, "--delay": {"-d", true},
	"-c": {"-c", true}, "--count": {"-c", true},
	"-s": {"-s", true}, "--select": {"-s", true},
	"-o": {"-o", true}, "--options": {"-o", true},
	"-h": {"-h", false}, "--help": {"-h", false},
}

// dmon prints one line per GPU and interval.
func (r *run) dmon(args []string) *failure {
	s, err := subOptions(args, dmonOptions)
	if err != nil {
		// The real dmon and pmon explain themselves and exit 0 on an option they do not know.
		r.print(err.text + dmonUsage)
		return nil
	}
	if s.has("-h") {
		r.print(dmonUsage)
		return nil
	}
	cols, err := selected(s)
	if err != nil {
		return err
	}
	return r.scroll(s, dmonUsage, func(gpus []view, first bool) {
		if first {
			r.print(dmonHeader(s["-o"], cols))
		}
		for _, g := range gpus {
			r.print(dmonRow(r.host.Now, s["-o"], g, cols))
		}
	})
}

// selected is the columns that -s asks for; letters that mean nothing are skipped.
func selected(s subcommand) ([]metric, *failure) {
	want := "puc"
	if s.has("-s") {
		want = s["-s"]
	}
	var out []metric
	for _, m := range metrics {
		if strings.IndexByte(want, m.group) >= 0 {
			out = append(out, m.cols...)
		}
	}
	if len(out) == 0 {
		return nil, &failure{"Failed to find any metric to display\nFailed to process command line \n\n", exitUsage}
	}
	return out, nil
}

// scroll shows count samples (-c; for ever without it), delay (-d) seconds apart.
func (r *run) scroll(s subcommand, usage string, show func(gpus []view, first bool)) *failure {
	count, delay := -1, 1
	for _, n := range []struct {
		option, what string
		to           *int
	}{{"-c", "number of samples to be displayed", &count}, {"-d", "interval", &delay}} {
		if !s.has(n.option) {
			continue
		}
		v, err := strconv.Atoi(s[n.option])
		if err != nil || v < 1 {
			r.printf("Invalid value for %s\n%s", n.what, usage)
			return nil
		}
		*n.to = v
	}
	if r.host.Driver.Version == "" {
		return noDriver()
	}
	return r.samples(s.ids(), count, time.Duration(min(delay, maxLoop))*time.Second, show)
}

func (r *run) samples(ids []string, count int, delay time.Duration, show func(gpus []view, first bool)) *failure {
	for n := 0; ; {
		gpus, err := r.views(ids)
		if err != nil {
			return err
		}
		show(gpus, n == 0)
		if n++; n == count || r.host.Sleep == nil {
			return nil
		}
		if err := r.wait(delay); err != nil {
			return err
		}
	}
}

// dmonHeader is the two heading lines, with the columns for date (D) and time (T) that -o adds.
func dmonHeader(opts string, cols []metric) string {
	names, units := lead(opts, "Date", "Time", "gpu"), lead(opts, "YYYYMMDD", "HH:MM:SS", "Idx")
	if !strings.ContainsAny(opts, "DT") {
		names, units = " "+names, " "+units
	}
	for _, c := range cols {
		names += fmt.Sprintf("%7s", c.name)
		units += fmt.Sprintf("%7s", c.unit)
	}
	return "#" + names + " \n#" + units + " \n"
}

func lead(opts, date, clock, index string) string {
	out := ""
	if strings.Contains(opts, "D") {
		out += fmt.Sprintf("%-12s", date)
	}
	if strings.Contains(opts, "T") {
		out += fmt.Sprintf("%-13s", clock)
	}
	return out + fmt.Sprintf("%3s", index)
}

func dmonRow(now time.Time, opts string, v view, cols []metric) string {
	row := " " + lead(opts, now.Format("20060102"), now.Format("15:04:05"), strconv.Itoa(v.shown))
	if !strings.ContainsAny(opts, "DT") {
		row = " " + row
	}
	for _, c := range cols {
		row += fmt.Sprintf("%7s", c.value(v))
	}
	return row + " \n"
}
