package proxy

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxParcels is how many writes one system call makes.
const maxParcels = 64

// parcel is a write that waits for the end of the batch.
type parcel struct {
	m     *member
	to    side
	fd    int32
	n     int // bytes of b that the socket took
	errno unix.Errno
	b     []byte
}

// bundler makes many writes in one system call, through io_uring. Each write wakes somebody; at the end of every system call the
// kernel may let the awakened have the processor instead. Doing that once for all is what the bundler is for: the system calls
// themselves are cheap. Nothing is ever in flight between calls: sockets that take no more say so.
type bundler struct {
	fd            int
	rings, memory []byte // mapped: both queues; the entries
	head, tail    *uint32
	mask          uint32
	entries       []submission
	doneHead      *uint32
	doneTail      *uint32
	doneMask      uint32
	done          []completion
}

// The kernel's structures: io_uring_params, io_uring_sqe, io_uring_cqe.
type (
	ringParameters struct {
		entries, doneEntries, flags, cpu, idle, features, workers uint32
		_                                                         [3]uint32
		submissions                                               struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
		completions                                               struct{ head, tail, mask, entries, overflow, array, flags, _, _, _ uint32 }
	}
	submission struct {
		operation, flags byte
		priority         uint16
		fd               int32
		offset           uint64
		address          *byte
		length           uint32
		messageFlags     uint32
		user             uint64
		_                [3]uint64
	}
	completion struct {
		user   uint64
		result int32
		flags  uint32
	}
)

const (
	offsetRings   = 0
	offsetEntries = 0x10000000
	singleMap     = 1  // feature: both queues are in one mapping
	waitForDone   = 1  // flag of enter
	operationSend = 26 // since Linux 5.6
)

// newBundler makes a bundler, or says why there is none: an old kernel, or one where io_uring is forbidden.
func newBundler() (*bundler, error) {
	var p ringParameters
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, maxParcels, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("set up io_uring: %w", errno)
	}
	b := &bundler{fd: int(fd)}
	if err := b.open(&p); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bundler) open(p *ringParameters) (err error) {
	if p.features&singleMap == 0 {
		return fmt.Errorf("set up io_uring: %w", unix.ENOSYS)
	}
	s, c := &p.submissions, &p.completions
	size := max(s.array+4*p.entries, c.array+uint32(unsafe.Sizeof(completion{}))*p.doneEntries)
	if b.rings, err = unix.Mmap(b.fd, offsetRings, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("set up io_uring: %w", err)
	}
	size = uint32(unsafe.Sizeof(submission{})) * p.entries
	if b.memory, err = unix.Mmap(b.fd, offsetEntries, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("set up io_uring: %w", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b.rings[offset])) }
	b.head, b.tail, b.mask = at(s.head), at(s.tail), *at(s.mask)
	b.doneHead, b.doneTail, b.doneMask = at(c.head), at(c.tail), *at(c.mask)
	b.entries = unsafe.Slice((*submission)(unsafe.Pointer(&b.memory[0])), p.entries)
	b.done = unsafe.Slice((*completion)(unsafe.Pointer(&b.rings[c.array])), p.doneEntries)
	for i, order := range unsafe.Slice(at(s.array), p.entries) {
		if order != uint32(i) { // the queue's places hold their own numbers, always
			*at(s.array + 4*uint32(i)) = uint32(i)
		}
	}
	return b.try()
}

// try sends a byte to ourselves.
func (b *bundler) try() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("try io_uring: %w", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	p := []parcel{{fd: int32(pair[0]), b: []byte{1}}}
	if b.send(p); p[0].n != 1 {
		return fmt.Errorf("try io_uring: %w", p[0].errno)
	}
	return nil
}

// send makes the writes of at most maxParcels parcels, and notes in each what came of it. What the kernel did not come to has
// EAGAIN, like what the socket did not take.
func (b *bundler) send(parcels []parcel) {
	tail := *b.tail
	for i := range parcels {
		p := &parcels[i]
		p.n, p.errno = 0, unix.EAGAIN
		b.entries[tail&b.mask] = submission{operation: operationSend, fd: p.fd, address: unsafe.SliceData(p.b), length: uint32(len(p.b)),
			messageFlags: unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT, user: uint64(i)}
		tail++
	}
	atomic.StoreUint32(b.tail, tail)
	submit, out := len(parcels), len(parcels)
	for out > 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(b.fd), uintptr(submit), uintptr(out), waitForDone, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == 0:
			submit -= int(n)
		case submit > 0: // short of something: what is not taken yet is taken back
			head := atomic.LoadUint32(b.head)
			out -= int(tail - head)
			submit = 0
			atomic.StoreUint32(b.tail, head)
		default:
			panic(fmt.Sprintf("io_uring_enter: %v", errno))
		}
		out -= b.collect(parcels)
	}
}

// collect notes the results that are there.
func (b *bundler) collect(parcels []parcel) (n int) {
	head := *b.doneHead
	for ; head != atomic.LoadUint32(b.doneTail); n++ {
		c := &b.done[head&b.doneMask]
		if p := &parcels[c.user]; c.result < 0 {
			p.errno = unix.Errno(-c.result)
		} else {
			p.n, p.errno = int(c.result), 0
		}
		head++
	}
	atomic.StoreUint32(b.doneHead, head)
	return n
}

func (b *bundler) close() {
	if b.memory != nil {
		unix.Munmap(b.memory)
	}
	if b.rings != nil {
		unix.Munmap(b.rings)
	}
	unix.Close(b.fd)
}
