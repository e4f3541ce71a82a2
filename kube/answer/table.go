package answer

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/engine/why"
)

// workloadTable is what kubectl prints.
func workloadTable(items []Workload) metav1.Table {
	t := newTable("Name:string", "Queue:string", "Priority:integer", "State:string", "Pods:string", "GPUs:integer", "Position:string", "ETA:string", "Why:string")
	for i := range items {
		w := &items[i]
		position := ""
		if w.Position != nil {
			position = fmt.Sprint(w.Position.Place)
		}
		pods := fmt.Sprintf("%d/%d", w.Pods.Running, w.Pods.Size)
		t.Rows = append(t.Rows, tableRow("Workload", w.ObjectMeta, w.Name, w.Queue, w.Priority, string(w.State), pods, w.GPUs, position, w.starts(), w.Sentence))
	}
	return t
}

// starts is when the workload will start, or is expected to.
func (w *Workload) starts() string {
	switch {
	case w.Promise != nil:
		return w.Promise.Start.UTC().Format(time.RFC3339)
	case w.ETA != nil && !w.ETA.Likely.IsZero():
		return w.ETA.Likely.UTC().Format(time.RFC3339)
	}
	return ""
}

func queueTable(items []Queue) metav1.Table {
	t := newTable("Name:string", "Parent:string", "Quota:string", "Limit:string", "Used:string", "Borrowed:string", "Lent:string", "Running:integer", "Waiting:integer", "Waiting-GPUs:integer")
	for i := range items {
		q := &items[i]
		t.Rows = append(t.Rows, tableRow("Queue", q.ObjectMeta, q.Name, q.Parent, list(q.Quota), list(q.Limits), list(q.Used), list(q.Borrowed), list(q.Lent), q.Running.Workloads, q.Waiting.Workloads, q.Waiting.GPUs))
	}
	return t
}

func configurationTable(c Configuration) metav1.Table {
	t := newTable("Name:string", "Pods-of:string", "Policy:string", "GPU:string")
	t.Rows = append(t.Rows, tableRow("Configuration", c.ObjectMeta, c.Name, strings.Join(c.SchedulerNames, ", "), string(c.Engine.Policy), c.Engine.GPU))
	return t
}

func list(amounts []why.Amount) string { return strings.Join(why.Amounts(amounts), ", ") }

// newTable has the columns, each "name:type".
func newTable(columns ...string) metav1.Table {
	t := metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}, Rows: []metav1.TableRow{}}
	for _, c := range columns {
		name, kind, _ := strings.Cut(c, ":")
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: kind})
	}
	t.ColumnDefinitions[0].Format = "name"
	return t
}

func tableRow(kind string, meta metav1.ObjectMeta, cells ...any) metav1.TableRow {
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: kind}, ObjectMeta: meta,
	}}}
}
