unsigned long plugin_length(void);
int main(void) { return plugin_length() != 1000; }
