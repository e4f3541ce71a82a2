package lang

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wait waits for jobs: all of them, or those named by pid or %id.
func (s *Shell) wait(args []string) {
	ctx, done := s.foreground()
	defer done()
	jobs := s.jobs
	named := args[1:]
	if len(named) > 0 && (named[0] == "-n" || named[0] == "-f") {
		named = named[1:]
	}
	if args[0] == "fg" && len(named) == 0 && len(jobs) > 0 {
		named = []string{"%" + strconv.Itoa(jobs[len(jobs)-1].id)}
	}
	if len(named) > 0 {
		jobs = nil
		for _, name := range named {
			j := s.job(name)
			if j == nil {
				s.errorf("%s: %s: no such job", args[0], name)
				s.status = 127
				return
			}
			jobs = append(jobs, j)
		}
	}
	for _, j := range jobs {
		select {
		case <-j.done:
			if len(named) > 0 {
				s.status = j.status
			}
		case <-ctx.Done():
			s.status = Killed(ctx)
			return
		}
	}
	s.forget()
}

// forget drops the jobs that have ended, but for the last ones, whose status may be asked for. Those that run are
// bounded by the number of processes.
func (s *Shell) forget() {
	const keep = 512
	surplus := len(s.jobs) - keep
	if surplus <= 0 {
		return
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j *job) bool {
		if surplus <= 0 || !ended(j) {
			return false
		}
		surplus--
		return true
	})
}

func ended(j *job) bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// job finds a job by pid or %id; nil if there is none.
func (s *Shell) job(name string) *job {
	id, isID := strings.CutPrefix(name, "%")
	if isID && (id == "" || id == "%" || id == "+") && len(s.jobs) > 0 {
		return s.jobs[len(s.jobs)-1]
	}
	n, err := strconv.Atoi(id)
	if err != nil {
		return nil
	}
	for _, j := range s.jobs {
		if isID && j.id == n || !isID && j.pid == n {
			return j
		}
	}
	return nil
}

func (s *Shell) printJobs() {
	for _, j := range s.jobs {
		if !ended(j) {
			s.write(1, fmt.Sprintf("[%d]  Running                 %s\n", j.id, j.text))
		}
	}
}

// kill sends a signal to processes and jobs.
func (s *Shell) kill(args []string) {
	sig, rest, ok := s.killFlags(args)
	if !ok {
		return
	}
	for _, target := range rest {
		pid, err := strconv.Atoi(target)
		if j := s.job(target); strings.HasPrefix(target, "%") {
			if j == nil {
				s.fail("kill: %s: no such job", target)
				continue
			}
			pid, err = j.pid, nil
		}
		if err != nil {
			s.fail("kill: invalid number '%s'", target)
			continue
		}
		if err := s.host.Send(pid, sig); err != nil {
			s.fail("kill: can't kill pid %s: %v", target, err)
		}
	}
	s.handleSignals()
	if s.life.Err() != nil {
		s.stopped()
	}
}

// killFlags reads -9, -TERM, -s TERM and -l.
func (s *Shell) killFlags(args []string) (sig Signal, rest []string, ok bool) {
	sig = SIGTERM
	if len(args) > 0 && args[0] == "-l" {
		s.listSignals()
		return 0, nil, false
	}
	if len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		name := args[0][1:]
		args = args[1:]
		if name == "s" && len(args) > 0 {
			name, args = args[0], args[1:]
		}
		if sig, ok = ParseSignal(name); !ok {
			s.fail("kill: bad signal name '%s'", name)
			return 0, nil, false
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		s.fail("kill: you need to specify whom to kill")
		return 0, nil, false
	}
	return sig, args, true
}
