// Preloaded, it describes the thread descriptor as no glibc does.
unsigned _thread_db_pthread_tid[3] = {32, 1, 8};
