"""tls_libssl.py -- OpenSSL's own client by ctypes, for what Python's `ssl` has no call: new keys, early data,
renegotiation.  The bytes lie in memory until the test sends them.
"""
import ctypes
import ctypes.util

TLS1_2, TLS1_3 = 0x0303, 0x0304
CTRL_MIN_VERSION, CTRL_MAX_VERSION, CTRL_SET_HOST = 123, 124, 55
BIO_PENDING, WANT_READ = 10, 2


def load():
    found = ctypes.util.find_library("ssl")
    if found is None:
        return None
    lib = ctypes.CDLL(found)
    if not hasattr(lib, "SSL_write_early_data"):
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, *arguments in (
            ("TLS_client_method", pointer), ("SSL_CTX_new", pointer, pointer), ("SSL_CTX_free", None, pointer),
            ("SSL_CTX_ctrl", ctypes.c_long, pointer, ctypes.c_int, ctypes.c_long, pointer), ("SSL_new", pointer, pointer),
            ("SSL_free", None, pointer), ("SSL_ctrl", ctypes.c_long, pointer, ctypes.c_int, ctypes.c_long, ctypes.c_char_p), ("SSL_set_bio", None, pointer, pointer, pointer), ("BIO_s_mem", pointer),
            ("BIO_new", pointer, pointer), ("BIO_read", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int),
            ("BIO_write", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int), ("SSL_set_connect_state", None, pointer),
            ("BIO_ctrl", ctypes.c_long, pointer, ctypes.c_int, ctypes.c_long, pointer), ("ERR_clear_error", None),
            ("SSL_do_handshake", ctypes.c_int, pointer), ("SSL_get_error", ctypes.c_int, pointer, ctypes.c_int),
            ("SSL_read", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int),
            ("SSL_write", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int),
            ("SSL_key_update", ctypes.c_int, pointer, ctypes.c_int), ("SSL_renegotiate", ctypes.c_int, pointer),
            ("SSL_get1_session", pointer, pointer), ("SSL_set_session", ctypes.c_int, pointer, pointer),
            ("SSL_SESSION_free", None, pointer), ("SSL_SESSION_dup", pointer, pointer),
            ("SSL_SESSION_set_max_early_data", ctypes.c_int, pointer, ctypes.c_uint32),
            ("SSL_write_early_data", ctypes.c_int, pointer, ctypes.c_char_p, size, ctypes.POINTER(size)),
            ("SSL_get_early_data_status", ctypes.c_int, pointer)):
        call = getattr(lib, name)
        call.restype, call.argtypes = result, arguments
    return lib


lib = load()


class Failed(Exception):
    pass


class Client:
    """Verifies nothing: other tests do."""

    def __init__(self, sock, version=TLS1_3, name=b"a.test", session=None):
        self.sock = sock
        self.context = lib.SSL_CTX_new(lib.TLS_client_method())
        for end in (CTRL_MIN_VERSION, CTRL_MAX_VERSION):
            assert lib.SSL_CTX_ctrl(self.context, end, version, None) == 1
        self.ssl = lib.SSL_new(self.context)
        self.into, self.out = lib.BIO_new(lib.BIO_s_mem()), lib.BIO_new(lib.BIO_s_mem())
        lib.SSL_set_bio(self.ssl, self.into, self.out)
        lib.SSL_set_connect_state(self.ssl)
        assert lib.SSL_ctrl(self.ssl, CTRL_SET_HOST, 0, name) == 1
        if session is not None:
            assert lib.SSL_set_session(self.ssl, session) == 1

    def taken(self):
        """What is to be sent."""
        pending = lib.BIO_ctrl(self.out, BIO_PENDING, 0, None)
        data = ctypes.create_string_buffer(pending + 1)
        n = lib.BIO_read(self.out, data, pending)
        return data.raw[:max(n, 0)]

    def flush(self):
        self.sock.sendall(self.taken())

    def call(self, what, *args):
        """Until it does not want to read any more."""
        while True:
            lib.ERR_clear_error()
            rc = what(self.ssl, *args)
            if rc > 0:
                return rc
            err = lib.SSL_get_error(self.ssl, rc)
            self.flush()
            if err != WANT_READ:
                raise Failed(err)
            data = self.sock.recv(65536)
            if not data:
                raise Failed("the connection ended")
            lib.BIO_write(self.into, data, len(data))

    def handshake(self):
        self.call(lib.SSL_do_handshake)
        self.flush()
        return self

    def write(self, data):
        assert lib.SSL_write(self.ssl, data, len(data)) == len(data)

    def read(self):
        room = ctypes.create_string_buffer(65536)
        n = self.call(lib.SSL_read, room, len(room))
        return room.raw[:n]

    def key_update(self, ask):
        assert lib.SSL_key_update(self.ssl, 1 if ask else 0) == 1
        assert lib.SSL_do_handshake(self.ssl) == 1

    def session(self):
        return lib.SSL_get1_session(self.ssl)

    def close(self):
        self.sock.close()
        lib.SSL_free(self.ssl)
        lib.SSL_CTX_free(self.context)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
