package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is how many blanks are between two columns; narrowGap where the terminal is too narrow for the table.
const (
	gap       = 3
	narrowGap = 2
)

// leastText is how short a column of free text may become before other columns give way to it.
const leastText = 16

// mostPadding is how wide a column of names is made for its widest cell, and mostTextPadding one of text: whoever may name an object would
// else make the line of every other one as long, by a name of 253 characters in each column. A cell that is wider is written whole, and moves
// the rest of its own line alone.
const (
	mostPadding     = 80
	mostTextPadding = 240
)

// column is one of a table.
type column struct {
	head string
	// text may be shortened to fit a terminal: it is for reading. Names are for copying, and never are.
	text bool
	// spare is left out where the terminal is too narrow, the highest first. 0 stays.
	spare int
}

// table is rows of cells under their columns. It fits itself to a terminal: first its text is shortened, then spare
// columns are left out. What remains is written whole, even where that is too wide.
type table struct {
	columns []column
	rows    [][]string
}

// add takes a row; what would begin another line or column in a cell does not.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i := range cells {
		row[i] = cell(cells[i])
	}
	t.rows = append(t.rows, row)
}

// write prints the table; width 0 is as wide as it takes.
func (t *table) write(out io.Writer, width int) error {
	shown := make([]int, len(t.columns))
	for i := range shown {
		shown[i] = i
	}
	widths, space := t.widths(width > 0), gap
	for width > 0 && !t.fit(widths, shown, space, width) {
		if space != narrowGap {
			space = narrowGap
			continue
		}
		next := t.mostSpare(shown)
		if next < 0 {
			t.squeeze(widths, shown, sum(widths, shown, space)-width)
			break
		}
		shown = slices.Delete(shown, next, next+1)
	}
	_, err := io.WriteString(out, t.render(widths, shown, space, width > 0))
	return err
}

// fit shortens the longest text as far as it must, and as it may; it says whether the table fits then.
func (t *table) fit(widths, shown []int, space, width int) bool {
	over := sum(widths, shown, space) - width
	if over <= 0 {
		return true
	}
	i := t.longestText(widths, shown)
	if i < 0 || widths[i]-over < leastText {
		return false
	}
	widths[i] -= over
	return true
}

// widths are how wide the columns are made; on a terminal, text is shortened later, as far as it must.
func (t *table) widths(terminal bool) []int {
	w := make([]int, len(t.columns))
	for i, c := range t.columns {
		w[i] = utf8.RuneCountInString(c.head)
		for _, row := range t.rows {
			w[i] = max(w[i], utf8.RuneCountInString(row[i]))
		}
		switch {
		case !c.text:
			w[i] = min(w[i], mostPadding)
		case !terminal:
			w[i] = min(w[i], mostTextPadding)
		}
	}
	return w
}

func sum(widths, shown []int, space int) int {
	n := space * (len(shown) - 1)
	for _, i := range shown {
		n += widths[i]
	}
	return n
}

// longestText is the column that can best do with less; -1: none can.
func (t *table) longestText(widths, shown []int) int {
	best := -1
	for _, i := range shown {
		if t.columns[i].text && (best < 0 || widths[i] >= widths[best]) {
			best = i
		}
	}
	return best
}

// mostSpare is where in shown the column is that is missed least; -1: none is spare.
func (t *table) mostSpare(shown []int) int {
	best := -1
	for at, i := range shown {
		if s := t.columns[i].spare; s > 0 && (best < 0 || s >= t.columns[shown[best]].spare) {
			best = at
		}
	}
	return best
}

// squeeze takes from the texts what is still too much, and leaves each its head.
func (t *table) squeeze(widths, shown []int, over int) {
	for _, i := range slices.Backward(shown) {
		if t.columns[i].text && over > 0 {
			less := min(over, max(0, widths[i]-utf8.RuneCountInString(t.columns[i].head)))
			widths[i] -= less
			over -= less
		}
	}
}

func (t *table) render(widths, shown []int, space int, terminal bool) string {
	var b strings.Builder
	line := func(cell func(i int) string) {
		var l strings.Builder
		for at, i := range shown {
			if at > 0 {
				l.WriteString(strings.Repeat(" ", space))
			}
			text := cell(i)
			if terminal && t.columns[i].text {
				text = shorten(text, widths[i])
			}
			l.WriteString(text + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))))
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(i int) string { return t.columns[i].head })
	for _, row := range t.rows {
		line(func(i int) string { return row[i] })
	}
	return b.String()
}

// shorten cuts a text that is too long, and says so.
func shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(0, width-3)]) + "..."[:min(3, width)]
}
