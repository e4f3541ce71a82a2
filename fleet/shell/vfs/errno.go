package vfs

import "syscall"

// Errno is a file system error with the wording of a Linux C library. It matches the
// syscall.Errno of the same number and, through it, the errors of io/fs.
type Errno syscall.Errno

// The errors this package returns.
const (
	EPERM        = Errno(syscall.EPERM)
	ENOENT       = Errno(syscall.ENOENT)
	EBADF        = Errno(syscall.EBADF)
	EACCES       = Errno(syscall.EACCES)
	EBUSY        = Errno(syscall.EBUSY)
	EEXIST       = Errno(syscall.EEXIST)
	EXDEV        = Errno(syscall.EXDEV)
	ENOTDIR      = Errno(syscall.ENOTDIR)
	EISDIR       = Errno(syscall.EISDIR)
	EINVAL       = Errno(syscall.EINVAL)
	ENOSPC       = Errno(syscall.ENOSPC)
	EROFS        = Errno(syscall.EROFS)
	ENAMETOOLONG = Errno(syscall.ENAMETOOLONG)
	ENOTEMPTY    = Errno(syscall.ENOTEMPTY)
	ELOOP        = Errno(syscall.ELOOP)
)

func (e Errno) Error() string {
	switch e {
	case EPERM:
		return "Operation not permitted"
	case ENOENT:
		return "No such file or directory"
	case EBADF:
		return "Bad file descriptor"
	case EACCES:
		return "Permission denied"
	case EBUSY:
		return "Device or resource busy"
	case EEXIST:
		return "File exists"
	case EXDEV:
		return "Cross-device link"
	case ENOTDIR:
		return "Not a directory"
	case EISDIR:
		return "Is a directory"
	case EINVAL:
		return "Invalid argument"
	case ENOSPC:
		return "No space left on device"
	case EROFS:
		return "Read-only file system"
	case ENAMETOOLONG:
		return "File name too long"
	case ENOTEMPTY:
		return "Directory not empty"
	case ELOOP:
		return "Too many levels of symbolic links"
	}
	return syscall.Errno(e).Error()
}

// Is lets errors.Is compare with syscall.ENOTDIR, fs.ErrNotExist and the like.
func (e Errno) Is(target error) bool {
	return target == syscall.Errno(e) || syscall.Errno(e).Is(target)
}
