package order

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Check recounts the line: pods without a node are in it, and the queue orders that are kept have
// each gang in line once, where it belongs. It costs a look at every pod and every gang in line,
// and is for audits.
func (l *Line) Check(a *cluster.Check) {
	l.checkOrders(a)
	//archtest:any-order what is found is sorted
	for key, p := range l.m.Pods {
		if p.Host == nil && !p.Terminating && !p.Foreign && !l.m.IsRejected(api.KindPod, key) {
			a.Note("pod", key, "line", "", bit(p.In != nil && l.Entry(p.In).Lined), 1)
		}
	}
}

// checkOrders recounts the queue orders. It finds the queue that each gang is charged to from the objects as told, and not
// from what gangs remember of it, so that the two are compared.
func (l *Line) checkOrders(a *cluster.Check) {
	if !l.ordersKept() {
		return
	}
	seen := make(map[*cluster.Gang]bool, len(l.gangs))
	//archtest:any-order what is found is sorted
	for key, o := range l.orders.byKey {
		name := key.user
		if key.queue != nil {
			name = key.queue.Name + "/" + name
		}
		a.Note("cluster", "", "queue order", name, bit(len(o.line) > 0 && o.orderKey == key), 1)
		for i, q := range o.line {
			queue, user := "", ""
			if q.Gang.Lone != nil {
				queue, user = a.PayerOf(q.Gang.Lone.Pod)
			} else {
				queue, user = a.Pays(q.Gang.Key, nil)
			}
			of := l.m.Queues[queue]
			if of == nil || of.Spec == nil || !of.Spec.FairUsers {
				user = ""
			}
			e := l.Entry(q.Gang)
			fine := e.Lined && e.order == o && user == key.user && !seen[q.Gang] && (of == key.queue || of != nil && of.Spec == nil)
			fine = fine && q.Turn == e.Turn && q.Rank == q.Priority && (i == 0 || o.line[i-1].Turn.Compare(q.Turn) < 0)
			fine = fine && (q.ask == Ask{} || e.ask == Ask{} || q.ask == e.ask || q.ask.outlived(e.ask))
			a.Note("cluster", "", "queue order", q.Key, bit(fine), 1)
			seen[q.Gang] = true
		}
	}
	a.Note("cluster", "", "queue orders", "", int64(len(seen)), int64(len(l.gangs)))
}

// bit is 1 for true.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
