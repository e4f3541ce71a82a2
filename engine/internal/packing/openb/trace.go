package openb

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MaxGPUs is the most GPUs that a node of the trace has.
const MaxGPUs = 8

// maxRows and maxBytes bound what is read of one file: the largest of the trace has 13,000 rows and 1.2 MB.
const (
	maxRows  = 200_000
	maxBytes = 64 << 20
)

// Node is a machine of the trace, empty. CPU is in thousandths of a core, memory in MiB.
type Node struct {
	Name        string
	CPU, Memory int64
	GPUs        int
	Model       string
}

// Pod is a pod of the trace. It asks for Milli thousandths of each of GPUs cards; Milli is 1000 where GPUs exceeds 1, and 0 where
// GPUs is 0. Models names the GPU models that it accepts; nil is any.
type Pod struct {
	Name        string
	CPU, Memory int64
	GPUs, Milli int
	Models      []string
}

// total is what the pod asks for of GPUs in all, in thousandths.
func (p *Pod) total() int64 { return int64(p.GPUs) * int64(p.Milli) }

// Nodes reads the nodes of the trace that have GPUs, by name.
func Nodes(dir fs.FS) ([]Node, error) {
	const file = "openb/openb_node_list_gpu_node.csv.gz"
	var out []Node
	err := table(dir, file, func(r row) error {
		n := Node{Name: r.text("sn"), CPU: r.number("cpu_milli"), Memory: r.number("memory_mib"), GPUs: int(r.number("gpu")), Model: r.text("model")}
		if n.GPUs < 1 || n.GPUs > MaxGPUs {
			return fmt.Errorf("node %s has %d GPUs, not 1 to %d", n.Name, n.GPUs, MaxGPUs)
		}
		out = append(out, n)
		return r.err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: no nodes", file)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// Pods reads one workload ("default", "gpushare40") as it is before inflation, by name.
func Pods(dir fs.FS, workload string) ([]Pod, error) {
	file := "openb/openb_pod_list_" + workload + ".csv.gz"
	var out []Pod
	err := table(dir, file, func(r row) error {
		p := Pod{Name: r.text("name"), CPU: r.number("cpu_milli"), Memory: r.number("memory_mib"), GPUs: int(r.number("num_gpu")), Milli: int(r.number("gpu_milli"))}
		if spec := r.optional("gpu_spec"); spec != "" {
			p.Models = strings.Split(spec, "|")
		}
		if r.err == nil {
			r.err = p.check()
		}
		out = append(out, p)
		return r.err
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: no pods", file)
	}
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

func (p *Pod) check() error {
	switch {
	case p.GPUs < 0 || p.GPUs > MaxGPUs, p.Milli < 0 || p.Milli > 1000, (p.GPUs == 0) != (p.Milli == 0), p.GPUs > 1 && p.Milli != 1000:
		return fmt.Errorf("pod %s asks for %d times %d thousandths of a GPU", p.Name, p.GPUs, p.Milli)
	}
	return nil
}

// Workloads are the names of the workloads in the folder, sorted.
func Workloads(dir fs.FS) ([]string, error) {
	files, err := fs.Glob(dir, "openb/openb_pod_list_*.csv.gz")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		name := strings.TrimPrefix(path.Base(f), "openb_pod_list_")
		out = append(out, strings.TrimSuffix(name, ".csv.gz"))
	}
	slices.Sort(out)
	return out, nil
}

// row is a line of a table, by column. The first thing that is wrong with it stays in err.
type row struct {
	columns map[string]int
	fields  []string
	err     error
}

func (r *row) optional(column string) string {
	if i, ok := r.columns[column]; ok {
		return r.fields[i]
	}
	return ""
}

func (r *row) text(column string) string {
	v := r.optional(column)
	if v == "" && r.err == nil {
		r.err = fmt.Errorf("no value in column %s", column)
	}
	return v
}

func (r *row) number(column string) int64 {
	n, err := strconv.ParseInt(r.text(column), 10, 64)
	if r.err == nil && (err != nil || n < 0 || n > 1<<40) {
		r.err = fmt.Errorf("column %s: %q is not a whole number", column, r.optional(column))
	}
	return n
}

// table calls each for every line after the heading of a file, which may be compressed.
func table(dir fs.FS, name string, each func(row) error) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = bufio.NewReader(f)
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	lines := csv.NewReader(io.LimitReader(in, maxBytes))
	heading, err := lines.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	columns := make(map[string]int)
	for i, c := range heading {
		columns[c] = i
	}
	for n := 2; ; n++ {
		fields, err := lines.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case n > maxRows:
			return fmt.Errorf("%s has more than %d rows", name, maxRows)
		}
		if err := each(row{columns: columns, fields: fields}); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
	}
}
